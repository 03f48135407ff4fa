"""A torn tail is repaired and loses nothing; damage inside is an alarm and loses nothing after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amem_conformance.harness import Raw
from amem_conformance.suite.log._making import append, new, subjects
from amem_core.domain.events import Event
from amem_core.errors import CorruptionError
from amem_core.ports.log import Log

MARK = b"mem-marked"


@pytest.fixture
def bytes_behind(raw: Raw | None) -> Raw:
    """The stored bytes, for what only damage can show."""
    if raw is None:
        pytest.skip("the backend keeps no bytes behind its back")
    return raw


def _key(raw: Raw) -> str:
    """Return where the marked event is stored."""
    return next(key for key, data in raw.blobs() if MARK in data)


def _bytes(raw: Raw, key: str) -> bytes:
    return dict(raw.blobs())[key]


@pytest.mark.requirement("log:tail:torn")
@pytest.mark.parametrize("torn", [b'{"seq": 7, "ki', b"\x00\x00\x00\x00", b"{", b" ", b"\xff" * 9000])
def test_a_torn_tail_is_not_read_and_the_next_writer_goes_on_behind_the_last_event(
    backend: Log, reopen: Callable[[], Log], bytes_behind: Raw, torn: bytes
) -> None:
    placed = append(backend, "d", new(1), new(2, subject=MARK.decode()), new(3))
    key = _key(bytes_behind)
    bytes_behind.write(key, _bytes(bytes_behind, key) + torn)
    for log in (backend, reopen()):
        assert log.head("d") == 3
        assert list(log.read("d")) == placed
        assert list(log.read("d", 3)) == []
    again = reopen()
    placed += append(again, "d", new(4))
    assert list(again.read("d")) == placed
    assert list(reopen().read("d", 2)) == placed[2:]


@pytest.mark.requirement("log:tail:torn")
def test_the_first_event_of_a_log_may_be_torn(backend: Log, reopen: Callable[[], Log], bytes_behind: Raw) -> None:
    append(backend, "d", new(1, subject=MARK.decode()))
    key = _key(bytes_behind)
    bytes_behind.write(key, b'{"actor":"ow')
    log = reopen()
    assert log.head("d") == 0
    assert list(log.read("d")) == []
    assert log.domains() == []
    assert append(log, "d", new(5))[0].seq == 1
    assert subjects(log, "d") == ["mem-5"]


@pytest.mark.requirement("log:tail:told")
@pytest.mark.parametrize("torn", [b'{"seq": 7, "ki', b"\x00\x00\x00\x00", b" ", b"\xff" * 9000])
def test_a_torn_tail_is_told_by_its_length_until_it_is_repaired(
    backend: Log, reopen: Callable[[], Log], bytes_behind: Raw, torn: bytes
) -> None:
    append(backend, "d", new(1, subject=MARK.decode()), new(2))
    assert (backend.torn("d"), backend.torn("never")) == (0, 0)
    key = _key(bytes_behind)
    bytes_behind.write(key, _bytes(bytes_behind, key) + torn)
    log = reopen()
    assert log.torn("d") == len(torn)
    append(log, "d", new(3))
    assert log.torn("d") == 0


@pytest.mark.requirement("log:tail:told")
def test_a_log_that_was_only_appended_to_has_no_torn_tail(backend: Log) -> None:
    for number in range(3):
        with backend.writer("d") as writer:
            writer.append([new(number), new(number + 10)])
        assert backend.torn("d") == 0


@pytest.mark.requirement("log:tail:group")
def test_a_group_is_repaired_to_all_or_none_wherever_it_was_cut(
    backend: Log, reopen: Callable[[], Log], bytes_behind: Raw
) -> None:
    append(backend, "d", new(1, subject=MARK.decode()))
    key = _key(bytes_behind)
    before = _bytes(bytes_behind, key)
    with backend.writer("d") as writer:
        writer.append([new(2), new(3), new(4)])
    whole = _bytes(bytes_behind, key)
    for size in range(len(before), len(whole)):
        bytes_behind.write(key, whole[:size])
        log = reopen()
        assert log.head("d") == 1
        assert [event.seq for event in log.read("d")] == [1]
        assert list(log.read("d", 2)) == []
        with log.writer("d") as writer:
            assert writer.head in {1, 4}
            assert writer.head == 1 or size == len(whole) - 1
            head = writer.head
            writer.append([new(9)])
        assert [event.seq for event in log.read("d")] == list(range(1, head + 2))


def _damaged(backend: Log, raw: Raw, at: int) -> tuple[list[Event], str]:
    """Append 1 to 9, damage event ``at``; return the events and the key."""
    placed = append(backend, "d", *[new(n, subject=MARK.decode() if n == at else "") for n in range(1, 10)])
    key = _key(raw)
    raw.write(key, _bytes(raw, key).replace(MARK, b"mem-chANGE"))
    return placed, key


@pytest.mark.requirement("log:damage:inside")
@pytest.mark.parametrize("at", [1, 2, 5, 8])
def test_a_changed_event_is_an_alarm_that_names_where_and_loses_nothing_after_it(
    backend: Log, reopen: Callable[[], Log], bytes_behind: Raw, at: int
) -> None:
    placed, key = _damaged(backend, bytes_behind, at)
    damaged = _bytes(bytes_behind, key)
    log = reopen()
    assert log.head("d") == 9
    seen: list[Event] = []
    with pytest.raises(CorruptionError, match=f"{at}") as caught:
        seen.extend(log.read("d"))
    assert seen == placed[: at - 1]
    assert caught.value.hint
    assert list(log.read("d", at)) == placed[at:]
    assert list(log.read("d", at + 1)) == placed[at + 1 :]
    assert append(log, "d", new(10))[0].seq == 10
    assert _bytes(bytes_behind, key).startswith(damaged)


@pytest.mark.requirement("log:damage:end")
def test_damage_in_the_last_event_is_an_alarm_and_nothing_is_cut_off(
    backend: Log, reopen: Callable[[], Log], bytes_behind: Raw
) -> None:
    placed, key = _damaged(backend, bytes_behind, 9)
    damaged = _bytes(bytes_behind, key)
    log = reopen()
    with pytest.raises(CorruptionError), log.writer("d"):
        pytest.fail("nobody may write behind damage")
    seen: list[Event] = []
    with pytest.raises(CorruptionError):
        seen.extend(log.read("d"))
    assert seen == placed[:8]
    assert log.domains() == ["d"]
    assert _bytes(bytes_behind, key) == damaged
