"""Events are numbered without a gap, read as they were appended, and durable when acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from amem_conformance.suite.log._making import START, append, new, plain, subjects
from amem_core.domain.events import Event, NewEvent
from amem_core.errors import AmemError, InvalidError
from amem_core.format.events import GENESIS, chain
from amem_core.ports.log import Log


@pytest.mark.requirement("log:append:numbers")
def test_events_are_numbered_from_one_without_a_gap(backend: Log) -> None:
    placed = append(backend, "d", *map(new, range(1, 6)))
    with backend.writer("d") as writer:
        placed += writer.append([new(6), new(7)])
        placed += writer.append([new(8)])
        assert writer.head == 8
    assert [event.seq for event in placed] == list(range(1, 9))
    assert list(backend.read("d")) == placed


@pytest.mark.requirement("log:append:fields")
def test_an_event_is_read_with_every_field_as_it_was_given(backend: Log, reopen: Callable[[], Log]) -> None:
    given = [
        NewEvent("entry.written", "mem-a", "session:S-1", datetime(2026, 3, 29, 1, 30, 0, 7, tzinfo=UTC), {}),
        NewEvent(
            "task.claimed",
            'task-\u00e9 \u7528\u6237 \U0001f600 "quoted" \\ \n end',
            "tap:x",
            datetime(1, 1, 1, tzinfo=UTC),
            {"fence": 3, "deep": {"list": [1, 2.5, True, None, "\u2028\x00"]}, "empty": [], "seq": 9, ',"seq":1': ""},
        ),
    ]
    append(backend, "d", *given)
    assert [plain(event) for event in backend.read("d")] == given
    assert [plain(event) for event in reopen().read("d")] == given
    assert {event.domain for event in backend.read("d")} == {"d"}


@pytest.mark.requirement("log:append:fields")
def test_a_time_in_another_zone_is_the_same_instant_in_utc(backend: Log) -> None:
    local = START.astimezone(timezone(timedelta(hours=5, minutes=30)))
    append(backend, "d", NewEvent("entry.written", "mem-a", "owner", local, {}))
    [event] = backend.read("d")
    assert event.time == START
    assert event.time.utcoffset() == timedelta(0)


@pytest.mark.requirement("log:append:group")
def test_events_that_are_appended_together_are_numbered_in_their_order(backend: Log, reopen: Callable[[], Log]) -> None:
    with backend.writer("d") as writer:
        assert writer.append([]) == []
        assert writer.head == 0
        placed = writer.append([new(n) for n in range(1, 101)])
        assert [event.seq for event in placed] == list(range(1, 101))
    append(backend, "d", new(101))
    again = reopen()
    assert [event.subject for event in again.read("d")] == [f"mem-{n}" for n in range(1, 102)]
    assert again.head("d") == 101


@pytest.mark.requirement("log:append:durable")
def test_what_was_acknowledged_is_there_after_a_reopening_and_the_numbers_go_on(
    backend: Log, reopen: Callable[[], Log]
) -> None:
    placed = append(backend, "d", new(1), new(2))
    again = reopen()
    assert list(again.read("d")) == placed
    assert again.head("d") == 2
    placed += append(again, "d", new(3))
    assert list(reopen().read("d")) == placed


@pytest.mark.requirement("log:append:chain")
def test_each_event_is_chained_to_the_one_before(backend: Log, reopen: Callable[[], Log]) -> None:
    append(backend, "d", new(1), new(2))
    with reopen().writer("d") as writer:
        writer.append([new(3), new(4)])
    previous = GENESIS
    for event in reopen().read("d"):
        assert event.chain == chain(previous, domain="d", seq=event.seq, event=event)
        previous = event.chain


@pytest.mark.requirement("log:append:refused")
@pytest.mark.parametrize("value", [object(), float("nan"), float("inf"), b"bytes", {1, 2}], ids=str)
def test_an_event_that_is_no_json_is_refused_with_all_that_came_with_it(backend: Log, value: object) -> None:
    append(backend, "d", new(1))
    with backend.writer("d") as writer:
        with pytest.raises(InvalidError):
            writer.append([new(2), new(3, data={"value": value})])
        assert writer.head == 1
        assert [event.seq for event in writer.append([new(2)])] == [2]
    assert subjects(backend, "d") == ["mem-1", "mem-2"]


@pytest.mark.requirement("log:append:refused")
def test_a_naive_time_is_refused(backend: Log) -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001  (what is refused)
    with backend.writer("d") as writer, pytest.raises(InvalidError):
        writer.append([NewEvent("entry.written", "mem-a", "owner", naive, {})])
    assert backend.head("d") == 0


@pytest.mark.requirement("log:read:after")
def test_reading_after_a_number_begins_with_the_next(backend: Log, reopen: Callable[[], Log]) -> None:
    placed: list[Event] = []
    for size in (1, 3, 1, 2, 5):
        with backend.writer("d") as writer:
            placed += writer.append([new(len(placed) + n) for n in range(1, size + 1)])
    for log in (backend, reopen()):
        for after in range(13):
            assert list(log.read("d", after)) == placed[after:]
        assert list(log.read("d", 10**12)) == []


@pytest.mark.requirement("log:read:far")
def test_reading_begins_anywhere_in_a_long_log(backend: Log, reopen: Callable[[], Log]) -> None:
    total = 3000
    with backend.writer("d") as writer:
        for start in range(1, total + 1, 250):
            writer.append([new(n, data={"fill": "x" * (n % 97)}) for n in range(start, start + 250)])
    for log in (backend, reopen()):
        for after in (0, 1, 249, 250, 251, 1499, 1500, 2222, total - 2, total - 1, total):
            found = log.read("d", after)
            assert [event.seq for _, event in zip(range(3), found, strict=False)] == list(
                range(after + 1, min(after + 4, total + 1))
            )
        assert sum(1 for _ in log.read("d")) == total


@pytest.mark.requirement("log:read:own-writes")
def test_an_append_is_read_at_once_here_and_by_another_instance(backend: Log, second: Callable[[], Log]) -> None:
    other = second()
    assert other.head("d") == 0
    with backend.writer("d") as writer:
        for number in range(1, 4):
            placed = writer.append([new(number)])
            assert backend.head("d") == other.head("d") == number
            assert list(backend.read("d", number - 1)) == list(other.read("d", number - 1)) == placed
    append(other, "d", new(4))
    assert backend.head("d") == 4
    assert subjects(backend, "d", 3) == ["mem-4"]
    assert append(backend, "d", new(5))[0].seq == 5


@pytest.mark.requirement("log:read:unknown")
def test_a_log_that_has_not_begun_is_empty(backend: Log) -> None:
    assert backend.head("d") == 0
    assert list(backend.read("d")) == []
    assert list(backend.read("d", 5)) == []
    assert backend.domains() == []
    with backend.writer("d") as writer:
        assert writer.head == 0
    assert backend.domains() == []


@pytest.mark.requirement("log:domains:apart")
def test_domains_have_their_own_numbers_and_are_listed_once_they_have_an_event(
    backend: Log, reopen: Callable[[], Log]
) -> None:
    names = ["my-project", "my", "true", "2026", "null", "my_project"]
    for name in names:
        assert append(backend, name, new(1, subject=f"mem-of-{name.replace('_', '0')}"))[0].seq == 1
    for log in (backend, reopen()):
        assert log.domains() == sorted(names)
        assert subjects(log, "my") == ["mem-of-my"]


@pytest.mark.requirement("log:names:refused")
@pytest.mark.parametrize("name", ["../../etc", "con", "nul.md", "a/../../b", "..%2f", "/etc", "", ".", "A", "a\x00b"])
def test_a_domain_that_could_be_a_path_is_refused_by_every_method(backend: Log, name: str) -> None:
    def write() -> None:
        with backend.writer(name) as writer:
            writer.append([new(1)])

    for call in (write, lambda: backend.head(name), lambda: list(backend.read(name))):
        with pytest.raises(AmemError):
            call()
    assert backend.domains() == []


@pytest.mark.requirement("log:close:idempotent")
def test_closing_twice_is_closing_once(backend: Log) -> None:
    append(backend, "d", new(1))
    backend.close()
    backend.close()
