"""Events: each change leaves one, they reach the log once and in order, and the log alone makes the tasks again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest

from amem_conformance.suite.ledger._making import (
    ALL,
    LEASE,
    ONE,
    OWNER,
    START,
    TWO,
    Book,
    claim,
    done,
    everything,
    file,
    kinds,
    new,
    taken,
)
from amem_core.domain.events import Event, NewEvent
from amem_core.domain.labels import Label
from amem_core.domain.tasks import TaskStatus
from amem_core.errors import AmemError, CorruptionError
from amem_core.ports.ledger import Ledger


def _life(ledger: Ledger) -> None:
    """One task through every transition but the one that only a jumping clock makes."""
    file(ledger, new("mem-a", origin="github:o/r#1", event="opened", priority=7))
    taken(ledger)
    ledger.heartbeat("mem-a", fence=1, lease=2 * LEASE, now=START + LEASE)
    ledger.release("mem-a", fence=1, actor=ONE, handoff="mem-h", now=START + LEASE)
    ledger.relabel("mem-a", label=Label.confidential, actor=OWNER, now=START + LEASE)
    taken(ledger, TWO, now=START + LEASE)
    ledger.complete("mem-a", fence=2, actor=TWO, handoff="mem-r", now=START + LEASE)


@pytest.mark.requirement("ledger:outbox:events")
def test_each_change_leaves_one_event_that_tells_all_of_it(backend: Ledger) -> None:
    _life(backend)
    events = [item.event for item in backend.outgoing("d")]
    later = START + LEASE
    assert [(event.kind, event.actor, event.time) for event in events] == [
        ("task.filed", OWNER, START),
        ("task.claimed", ONE, START),
        ("task.renewed", ONE, later),
        ("task.released", ONE, later),
        ("task.relabelled", OWNER, later),
        ("task.claimed", TWO, later),
        ("task.completed", TWO, later),
    ]
    assert {event.subject for event in events} == {"mem-a"}
    assert [event.data["revision"] for event in events] == list(range(1, 8))
    assert [dict(event.data) for event in events[:3]] == [
        {
            "revision": 1,
            "fence": 0,
            "label": "internal",
            "priority": 7,
            "origin": "github:o/r#1",
            "upstream_event": "opened",
        },
        {
            "revision": 2,
            "fence": 1,
            "holder": ONE,
            "lease_until": "2026-01-01T12:10:00.000000Z",
            "lease_seconds": 600.0,
        },
        {
            "revision": 3,
            "fence": 1,
            "holder": ONE,
            "lease_until": "2026-01-01T12:30:00.000000Z",
            "lease_seconds": 1200.0,
        },
    ]
    assert [event.data.get("handoff") for event in events[3:]] == ["mem-h", None, None, "mem-r"]
    assert events[4].data["label"] == "confidential"


@pytest.mark.requirement("ledger:outbox:refused")
def test_a_refused_call_leaves_no_event(backend: Ledger) -> None:
    file(backend, new("mem-a"))
    taken(backend)
    before = backend.outgoing("d")
    calls: list[Callable[[], object]] = [
        lambda: backend.file(new("mem-a", origin="x"), actor=OWNER, now=START),
        lambda: backend.claim("mem-a", holder=TWO, lease=LEASE, now=START),
        lambda: backend.heartbeat("mem-a", fence=2, lease=LEASE, now=START),
        lambda: backend.complete("mem-a", fence=0, actor=TWO, handoff=None, now=START),
        lambda: backend.release("mem-a", fence=0, actor=TWO, handoff=None, now=START),
        lambda: backend.relabel("mem-b", label=Label.public, actor=TWO, now=START),
    ]
    for call in calls:
        with pytest.raises(AmemError):
            call()
    assert backend.outgoing("d") == before


@pytest.mark.requirement("ledger:outbox:order")
def test_events_go_out_oldest_first_and_as_many_as_asked(backend: Ledger) -> None:
    file(backend, *(new(f"mem-{number}") for number in (3, 1, 2)))
    taken(backend)
    outgoing = backend.outgoing("d")
    assert [(item.event.subject, item.event.kind) for item in outgoing] == [
        ("mem-3", "task.filed"),
        ("mem-1", "task.filed"),
        ("mem-2", "task.filed"),
        ("mem-1", "task.claimed"),
    ]
    numbers = [item.number for item in outgoing]
    assert numbers == sorted(set(numbers))
    assert backend.outgoing("d", limit=2) == outgoing[:2]


@pytest.mark.requirement("ledger:outbox:relayed")
def test_what_is_relayed_leaves_the_outbox_and_nothing_else(backend: Ledger) -> None:
    _life(backend)
    outgoing = backend.outgoing("d")
    backend.relayed("d", number=outgoing[2].number, through=3)
    assert (backend.outgoing("d"), backend.watermark("d")) == (outgoing[3:], 3)
    backend.relayed("d", number=outgoing[2].number, through=3)
    assert (backend.outgoing("d"), backend.watermark("d")) == (outgoing[3:], 3)
    backend.relayed("d", number=outgoing[-1].number + 1, through=8)
    assert (backend.outgoing("d"), backend.watermark("d")) == (outgoing[3:], 3)
    backend.relayed("d", number=outgoing[-1].number, through=7)
    assert (backend.outgoing("d"), backend.watermark("d")) == ([], 7)


@pytest.mark.requirement("ledger:outbox:numbers")
def test_a_number_is_never_given_twice(backend: Ledger, reopen: Callable[[], Ledger]) -> None:
    file(backend, new("mem-a"))
    (first,) = backend.outgoing("d")
    backend.relayed("d", number=first.number, through=1)
    backend.relayed("d", number=first.number + 100, through=1)
    ledger = reopen()
    file(ledger, new("mem-b"))
    (other,) = ledger.outgoing("d")
    assert other.number > first.number
    ledger.relayed("d", number=first.number, through=1)
    assert ledger.outgoing("d") == [other]
    ledger.relayed("d", number=other.number, through=2)
    ledger.rebuild("d", [], through=0)
    file(ledger, new("mem-c"))
    (third,) = ledger.outgoing("d")
    assert third.number > other.number


@pytest.mark.requirement("ledger:outbox:domains")
def test_each_domain_has_an_outbox_of_its_own(backend: Ledger) -> None:
    file(backend, new("mem-a", "d"), new("mem-b", "e"))
    (item,) = backend.outgoing("d")
    assert item.event.subject == "mem-a"
    backend.relayed("d", number=item.number, through=1)
    assert [item.event.subject for item in backend.outgoing("e")] == ["mem-b"]
    assert (backend.outgoing("d"), backend.watermark("d"), backend.watermark("e")) == ([], 1, 0)
    assert backend.outgoing("nowhere") == []


@pytest.mark.requirement("ledger:outbox:durable")
def test_tasks_and_outbox_are_there_after_reopening(backend: Ledger, reopen: Callable[[], Ledger]) -> None:
    _life(backend)
    backend.relayed("d", number=backend.outgoing("d")[0].number, through=1)
    before = everything(backend), backend.outgoing("d"), backend.watermark("d")
    ledger = reopen()
    assert (everything(ledger), ledger.outgoing("d"), ledger.watermark("d")) == before


@pytest.mark.requirement("ledger:relay:exactly-once")
@pytest.mark.parametrize("again", ["same", "reopened"])
def test_a_crash_between_append_and_relayed_sends_nothing_twice(
    backend: Ledger, reopen: Callable[[], Ledger], again: str
) -> None:
    book = Book()
    file(backend, new("mem-a"), new("mem-b"))
    book.carry(backend)
    taken(backend)
    book.carry(backend, crash=True)
    ledger = backend if again == "same" else reopen()
    taken(ledger, TWO)
    before = everything(ledger)
    book.carry(ledger)
    assert (ledger.outgoing("d"), ledger.watermark("d")) == ([], len(book.events))
    assert [(event.subject, event.data["revision"]) for event in book.events] == [
        ("mem-a", 1),
        ("mem-b", 1),
        ("mem-a", 2),
        ("mem-b", 2),
    ]
    assert everything(ledger) == before


@pytest.mark.requirement("ledger:relay:concurrent")
def test_changes_by_many_threads_reach_the_log_once_and_in_order(backend: Ledger) -> None:
    book, writer = Book(), threading.Lock()

    def work(number: int) -> None:
        for each in range(6):
            file(backend, new(f"mem-{number}-{each}"))
            while task := claim(backend, f"session:{number}"):
                done(backend, task)
                with writer:
                    book.carry(backend, crash=each % 3 == 0)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    book.carry(backend)
    assert len(book.events) == 3 * 6 * 8
    for task in everything(backend):
        told = [event.data["revision"] for event in book.events if event.subject == task.id]
        assert (task.status, told) == (TaskStatus.completed, [1, 2, 3])
    before = everything(backend)
    book.rebuild(backend)
    assert everything(backend) == before


@pytest.mark.requirement("ledger:watermark:grows")
def test_the_watermark_is_nought_at_first_and_never_goes_back(backend: Ledger) -> None:
    assert backend.watermark("d") == 0
    backend.apply("d", [], through=5)
    backend.apply("d", [], through=3)
    backend.relayed("d", number=0, through=4)
    assert backend.watermark("d") == 5
    assert everything(backend) == []


@pytest.mark.requirement("ledger:rebuild:events")
def test_from_the_events_alone_the_tasks_are_the_same(backend: Ledger, reopen: Callable[[], Ledger]) -> None:
    book = Book()
    _life(backend)
    file(backend, *(new(f"mem-{number}", priority=number) for number in range(5)))
    taken(backend)
    done(backend, taken(backend))
    claim(backend, TWO, now=START - 100 * LEASE)
    book.carry(backend)
    before = everything(backend)
    for again in (False, True):
        ledger = reopen() if again else backend
        assert book.rebuild(ledger) == len(before)
        assert (everything(ledger), ledger.outgoing("d"), ledger.watermark("d")) == (before, [], len(book.events))


@pytest.mark.requirement("ledger:rebuild:events")
def test_a_fresh_ledger_is_rebuilt_from_the_log_of_another(
    fresh: Callable[[], AbstractContextManager[Ledger]], backend: Ledger
) -> None:
    book = Book()
    _life(backend)
    file(backend, *(new(f"mem-{number}", priority=number) for number in range(5)))
    taken(backend)
    book.carry(backend)
    with fresh() as ledger:
        assert book.rebuild(ledger) == 6
        assert (everything(ledger), ledger.outgoing("d"), ledger.watermark("d")) == (
            everything(backend),
            [],
            len(book.events),
        )
        assert book.rebuild(ledger) == 6
        assert taken(ledger, TWO).id == "mem-1"


@pytest.mark.requirement("ledger:rebuild:events")
def test_a_log_of_thousands_of_events_is_followed(backend: Ledger) -> None:
    book = Book()
    file(backend, new("mem-a"))
    taken(backend)
    for number in range(2500):
        backend.heartbeat("mem-a", fence=1, lease=LEASE, now=START + number * LEASE)
    while book.carry(backend):
        pass
    before = everything(backend)
    book.rebuild(backend)
    assert (everything(backend), len(book.events), before[0].revision) == (before, 2502, 2502)


def _other(subject: str) -> NewEvent:
    return NewEvent("entry.written", subject, OWNER, START, {"revision": 1, "version": 1})


@pytest.mark.requirement("ledger:apply:other-kinds")
def test_events_of_entries_are_passed_over(backend: Ledger) -> None:
    book = Book()
    file(backend, new("mem-a"))
    book.append(_other("mem-a"), _other("mem-x"))
    book.carry(backend)
    book.append(_other("mem-a"))
    book.follow(backend)
    before = everything(backend)
    assert (backend.watermark("d"), len(before)) == (4, 1)
    book.rebuild(backend)
    assert (everything(backend), backend.watermark("d")) == (before, 4)


@pytest.mark.requirement("ledger:apply:held")
def test_an_event_that_is_held_already_only_leaves_the_outbox(backend: Ledger) -> None:
    _life(backend)
    outgoing = backend.outgoing("d")
    book = Book()
    book.append(*(item.event for item in outgoing[:4]))
    before = everything(backend)
    for _ in range(2):
        backend.apply("d", book.events, through=4)
        assert (everything(backend), backend.outgoing("d")) == (before, outgoing[4:])


def _until_now(ledger: Ledger) -> Book:
    """A task that was filed and claimed, in a log that the ledger has forgotten the end of."""
    book = Book()
    file(ledger, new("mem-a"), new("mem-b"))
    taken(ledger)
    book.carry(ledger)
    return book


@pytest.mark.requirement("ledger:apply:lost")
@pytest.mark.parametrize("kept", [0, 1, 2])
def test_what_the_ledger_lost_comes_back_and_work_goes_on(
    fresh: Callable[[], AbstractContextManager[Ledger]], backend: Ledger, kept: int
) -> None:
    book = _until_now(backend)
    before = everything(backend)
    with fresh() as ledger:
        ledger.apply("d", book.events[:kept], through=kept)
        book.follow(ledger)
        assert (everything(ledger), ledger.watermark("d")) == (before, 3)
        ledger.heartbeat("mem-a", fence=1, lease=LEASE, now=START)
        assert taken(ledger, TWO).id == "mem-b"
        assert [event.data["revision"] for event in book.carry(ledger)] == [3, 2]


@pytest.mark.requirement("ledger:apply:sends-nothing")
def test_what_came_from_the_log_is_not_sent_there_again(backend: Ledger) -> None:
    book = _until_now(backend)
    book.rebuild(backend)
    assert backend.outgoing("d") == []
    backend.heartbeat("mem-a", fence=1, lease=LEASE, now=START)
    assert kinds(backend) == ["task.renewed"]


def _changed(event: Event, **data: object) -> Event:
    return event._replace(data={**event.data, **data})


_BREAKS: list[Callable[[list[Event]], list[Event]]] = [
    lambda events: events[2:],
    lambda events: [events[0], _changed(events[2], revision=3)],
    lambda events: [events[0], _changed(events[2], revision="2")],
    lambda events: [events[0], _changed(events[2], fence=7)],
    lambda events: [events[0], _changed(events[2], holder=None)],
    lambda events: [events[0], _changed(events[2], lease_until="soon")],
    lambda events: [events[0], events[2]._replace(data={"revision": 2})],
    lambda events: [events[0], events[2]._replace(kind="task.forgotten")],
    lambda events: [_changed(events[0], label="secret")],
    lambda events: [_changed(events[0], priority="high")],
    lambda events: [events[0]._replace(data={})],
]


@pytest.mark.requirement("ledger:apply:gap")
@pytest.mark.parametrize("break_it", _BREAKS)
def test_an_event_that_does_not_follow_is_refused(
    fresh: Callable[[], AbstractContextManager[Ledger]], backend: Ledger, break_it: Callable[[list[Event]], list[Event]]
) -> None:
    book = _until_now(backend)
    with fresh() as ledger:
        with pytest.raises(CorruptionError, match="mem-a") as caught:
            ledger.apply("d", break_it(book.events), through=3)
        assert caught.value.hint
        assert (everything(ledger), ledger.watermark("d")) == ([], 0)
        ledger.apply("d", book.events, through=3)
        assert len(everything(ledger)) == 2


@pytest.mark.requirement("ledger:apply:gap")
def test_a_log_that_files_one_event_twice_is_refused(
    fresh: Callable[[], AbstractContextManager[Ledger]], backend: Ledger
) -> None:
    book = Book()
    file(backend, new("mem-a", origin="o", event="1"))
    book.carry(backend)
    book.append(last_event(book)._replace(subject="mem-b"))
    with fresh() as ledger, pytest.raises(CorruptionError):
        ledger.apply("d", book.events, through=2)


@pytest.mark.requirement("ledger:rebuild:gap")
@pytest.mark.parametrize("break_it", _BREAKS)
def test_a_log_that_does_not_follow_leaves_everything_as_it_was(
    backend: Ledger, break_it: Callable[[list[Event]], list[Event]]
) -> None:
    book = _until_now(backend)
    taken(backend)
    before = everything(backend), backend.outgoing("d"), backend.watermark("d")
    with pytest.raises(CorruptionError, match="mem-a") as caught:
        backend.rebuild("d", iter(break_it(book.events)), through=3)
    assert caught.value.hint
    assert (everything(backend), backend.outgoing("d"), backend.watermark("d")) == before


@pytest.mark.requirement("ledger:rebuild:gap")
def test_a_log_that_takes_the_filing_or_the_id_of_another_task_leaves_everything_as_it_was(backend: Ledger) -> None:
    book = Book()
    file(backend, new("mem-a", origin="o", event="1"), new("mem-e", "e"))
    book.carry(backend)
    before = everything(backend)
    for subject, data in (("mem-b", {}), ("mem-e", {"upstream_event": "2"})):
        twice = Book()
        twice.append(last_event(book), last_event(book)._replace(subject=subject, data={**book.events[0].data, **data}))
        with pytest.raises(CorruptionError, match=subject) as caught:
            twice.rebuild(backend)
        assert caught.value.hint
        assert (everything(backend), backend.watermark("d"), kinds(backend, "e")) == (before, 1, ["task.filed"])


@pytest.mark.requirement("ledger:rebuild:outbox")
@pytest.mark.parametrize("crash", [False, True])
def test_what_the_log_does_not_hold_yet_stays_and_is_carried(backend: Ledger, crash: bool) -> None:  # noqa: FBT001
    book = Book()
    file(backend, new("mem-a"), new("mem-b"))
    book.carry(backend)
    taken(backend)
    book.carry(backend, crash=crash)
    file(backend, new("mem-c", origin="o", event="1", priority=1))
    done(backend, taken(backend))
    backend.heartbeat("mem-a", fence=1, lease=2 * LEASE, now=START)
    before, waiting = everything(backend), backend.outgoing("d")[crash:]
    assert book.rebuild(backend) == 3
    assert (everything(backend), backend.outgoing("d"), backend.watermark("d")) == (before, waiting, 3)
    assert [event.kind for event in book.carry(backend)] == [
        "task.filed",
        "task.claimed",
        "task.completed",
        "task.renewed",
    ]
    assert book.rebuild(backend) == 3
    assert (everything(backend), backend.outgoing("d")) == (before, [])


@pytest.mark.requirement("ledger:rebuild:outbox")
def test_what_does_not_follow_from_the_log_leaves_the_outbox_and_the_rest_stays(backend: Ledger) -> None:
    book = Book()
    file(backend, new("mem-a"), new("mem-b"), new("mem-c", priority=900))
    book.carry(backend)
    first = taken(backend)
    claimed = backend.outgoing("d")[0].event
    done(backend, first)
    taken(backend)
    file(backend, new("mem-d", origin="o", event="1"))
    book.append(claimed._replace(actor=TWO, data={**claimed.data, "holder": TWO}))
    book.append(
        NewEvent(
            "task.filed",
            "mem-z",
            OWNER,
            START,
            {**book.events[0].data, "origin": "o", "upstream_event": "1"},
        )
    )
    assert book.rebuild(backend) == 4
    assert [(task.id, task.holder, task.revision) for task in everything(backend)] == [
        ("mem-a", TWO, 2),
        ("mem-b", ONE, 2),
        ("mem-c", None, 1),
        ("mem-z", None, 1),
    ]
    assert [event.subject for event in book.carry(backend)] == ["mem-b"]


@pytest.mark.requirement("ledger:rebuild:set-back")
def test_a_log_that_was_set_back_is_followed(backend: Ledger) -> None:
    book = _until_now(backend)
    file(backend, new("mem-c"))
    done(backend, everything(backend)[0])
    del book.events[2:]
    assert book.rebuild(backend) == 3
    assert [(task.id, task.revision) for task in everything(backend)] == [("mem-a", 1), ("mem-b", 1), ("mem-c", 1)]
    assert (backend.watermark("d"), kinds(backend)) == (2, ["task.filed"])
    assert taken(backend, TWO).fence == 1


@pytest.mark.requirement("ledger:rebuild:atomic")
def test_nobody_sees_or_claims_from_half_a_rebuild(backend: Ledger, second: Callable[[], Ledger]) -> None:
    other, book = second(), Book()
    file(backend, *(new(f"mem-{number:03}") for number in range(300)))
    while task := claim(backend):
        done(backend, task)
    book.carry(backend)
    before, seen, stop = everything(backend), list[bool](), threading.Event()

    def look() -> None:
        while not stop.is_set():
            seen.append(claim(other, TWO) is None and everything(other) == before)

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        try:
            for _ in range(10):
                book.rebuild(backend)
        finally:
            stop.set()
        looking.result()
    assert seen
    assert all(seen)


@pytest.mark.requirement("ledger:rebuild:atomic")
def test_what_is_claimed_during_rebuilds_is_claimed_once_and_reaches_the_log(
    backend: Ledger, second: Callable[[], Ledger]
) -> None:
    other, book, writer = second(), Book(), threading.Lock()
    file(backend, *(new(f"mem-{number:03}") for number in range(60)))
    book.carry(backend)
    held: list[tuple[str, int]] = []

    def work() -> None:
        while task := claim(other, TWO):
            with writer:
                book.carry(other)
            held.append((task.id, task.fence))

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        while not working.done():
            with writer:
                book.carry(backend)
                book.rebuild(backend)
        working.result()
    assert sorted(held) == [(f"mem-{number:03}", 1) for number in range(60)]
    logged = [(event.subject, event.data["fence"]) for event in book.events if event.kind == "task.claimed"]
    assert sorted(logged) == sorted(held)


def last_event(book: Book) -> NewEvent:
    """Return the book's last event without its place."""
    event = book.events[-1]
    return NewEvent(event.kind, event.subject, event.actor, event.time, event.data)


@pytest.mark.requirement("ledger:apply:diverged")
def test_a_log_that_tells_of_another_claim_is_not_passed_over(backend: Ledger) -> None:
    book = Book()
    file(backend, new("mem-a"))
    book.carry(backend)
    taken(backend)
    claimed = backend.outgoing("d")[0].event
    book.append(claimed._replace(actor=TWO, data={**claimed.data, "holder": TWO}))
    with pytest.raises(CorruptionError, match="mem-a") as caught:
        book.follow(backend)
    assert "reindex" in caught.value.hint
    book.rebuild(backend)
    assert [task.holder for task in everything(backend)] == [TWO]


@pytest.mark.requirement("ledger:rebuild:domain")
def test_only_the_rebuilt_domain_is_replaced(backend: Ledger) -> None:
    file(backend, new("mem-a", "d", origin="o", event="1"), new("mem-b", "e"))
    backend.relayed("d", number=backend.outgoing("d")[-1].number, through=1)
    backend.apply("e", [], through=4)
    assert backend.rebuild("d", [], through=0) == 0
    assert backend.rebuild("nowhere", [], through=2) == 0
    assert [task.id for task in everything(backend)] == ["mem-b"]
    assert (kinds(backend, "d"), kinds(backend, "e"), backend.watermark("e")) == ([], ["task.filed"], 4)
    assert (backend.watermark("d"), backend.watermark("nowhere")) == (0, 2)
    assert backend.file(new("mem-c", "d", origin="o", event="1"), actor=OWNER, now=START)[1]
    assert [task.id for task in backend.tasks(ALL, now=START)] == ["mem-b", "mem-c"]
