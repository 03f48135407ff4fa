"""Filing: once for one origin and event, and what a task may be."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amem_conformance.suite.ledger._making import (
    ALL,
    LEASE,
    ONE,
    OWNER,
    START,
    TWO,
    claim,
    everything,
    file,
    kinds,
    new,
    taken,
)
from amem_conformance.suite.ledger._processes import in_processes
from amem_core.domain.labels import Label
from amem_core.domain.tasks import Task, TaskStatus
from amem_core.errors import ConflictError, InvalidError
from amem_core.ports.ledger import Ledger

ISSUE = "github:o/r#1"


@pytest.mark.requirement("ledger:file:new")
def test_a_filed_task_is_ready_and_nobody_has_held_it(backend: Ledger) -> None:
    filed, created = backend.file(new("mem-a", origin=ISSUE, event="opened", priority=-3), actor=OWNER, now=START)
    assert created
    assert filed == Task(
        id="mem-a",
        domain="d",
        label=Label.internal,
        status=TaskStatus.ready,
        priority=-3,
        origin=ISSUE,
        upstream_event="opened",
        holder=None,
        fence=0,
        lease_until=None,
        handoff=None,
        created=START,
        updated=START,
        revision=1,
    )
    assert backend.get("mem-a", now=START) == filed


@pytest.mark.requirement("ledger:file:once")
def test_an_origin_and_event_is_filed_once(backend: Ledger) -> None:
    first, _ = backend.file(new("mem-a", origin=ISSUE, event="opened"), actor=OWNER, now=START)
    again, created = backend.file(new("mem-b", origin=ISSUE, event="opened"), actor=OWNER, now=START)
    other, other_created = backend.file(new("mem-c", origin=ISSUE, event="closed"), actor=OWNER, now=START)
    assert (again, created) == (first, False)
    assert (other.id, other_created) == ("mem-c", True)
    assert [task.id for task in everything(backend)] == ["mem-a", "mem-c"]


@pytest.mark.requirement("ledger:file:once")
def test_a_task_that_was_filed_before_is_returned_as_it_stands_now(backend: Ledger) -> None:
    file(backend, new("mem-a", origin=ISSUE, event="opened"))
    held = taken(backend)
    filing = new("mem-b", origin=ISSUE, event="opened")
    assert backend.file(filing, actor=OWNER, now=START) == (held, False)
    later, created = backend.file(filing, actor=OWNER, now=START + LEASE)
    assert (later.status, created) == (TaskStatus.ready, False)


@pytest.mark.requirement("ledger:file:per-domain")
def test_each_domain_files_an_origin_and_event_for_itself(backend: Ledger) -> None:
    file(backend, new("mem-a", "d", origin=ISSUE, event="1"), new("mem-b", "e", origin=ISSUE, event="1"))
    assert [task.id for task in everything(backend)] == ["mem-a", "mem-b"]


@pytest.mark.requirement("ledger:file:no-event")
def test_tasks_with_half_an_origin_are_never_taken_for_one(backend: Ledger) -> None:
    for id, origin, event in [
        ("mem-a", ISSUE, None),
        ("mem-b", ISSUE, None),
        ("mem-c", None, "1"),
        ("mem-d", None, "1"),
        ("mem-e", None, None),
        ("mem-f", None, None),
    ]:
        assert backend.file(new(id, origin=origin, event=event), actor=OWNER, now=START)[1]


@pytest.mark.requirement("ledger:file:repeat")
@pytest.mark.parametrize(("origin", "event"), [(None, None), (ISSUE, "1"), (ISSUE, None)])
def test_a_filing_that_is_repeated_changes_nothing(backend: Ledger, origin: str | None, event: str | None) -> None:
    task = new("mem-a", origin=origin, event=event)
    (filed,) = file(backend, task)
    assert backend.file(task, actor=OWNER, now=START + LEASE) == (filed, False)
    assert kinds(backend) == ["task.filed"]


@pytest.mark.requirement("ledger:file:id-taken")
def test_an_id_that_another_task_has_is_refused(backend: Ledger) -> None:
    file(backend, new("mem-a", origin=ISSUE, event="1"))
    for other in [
        new("mem-a"),
        new("mem-a", origin=ISSUE),
        new("mem-a", origin=ISSUE, event="2"),
        new("mem-a", "e", origin=ISSUE, event="1"),
    ]:
        with pytest.raises(ConflictError, match="mem-a") as caught:
            backend.file(other, actor=OWNER, now=START)
        assert caught.value.hint
    assert kinds(backend) == ["task.filed"]
    assert kinds(backend, "e") == []


@pytest.mark.requirement("ledger:file:race")
def test_threads_that_file_one_event_file_one_task(backend: Ledger) -> None:
    def work(number: int) -> list[tuple[str, bool]]:
        found = [
            backend.file(new(f"mem-{number}-{each}", origin=ISSUE, event=str(each)), actor=OWNER, now=START)
            for each in range(12)
        ]
        return [(task.id, created) for task, created in found]

    with ThreadPoolExecutor(8) as pool:
        _check_race(list(pool.map(work, range(8))))
    assert len(kinds(backend)) == 12


@pytest.mark.requirement("ledger:file:race:processes")
def test_processes_that_file_one_event_file_one_task(backend: Ledger, second: Callable[[], Ledger]) -> None:
    def work(number: int) -> list[tuple[str, bool]]:
        ledger = second()
        found = [
            ledger.file(new(f"mem-{number}-{each}", origin=ISSUE, event=str(each)), actor=OWNER, now=START)
            for each in range(12)
        ]
        return [(task.id, created) for task, created in found]

    _check_race(in_processes(work, 4))
    assert len(everything(backend)) == 12


def _check_race(answers: list[list[tuple[str, bool]]]) -> None:
    for each in zip(*answers, strict=True):
        assert len({id for id, _ in each}) == 1
        assert sum(created for _, created in each) == 1


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)


@pytest.mark.requirement("ledger:text:kept")
@settings(max_examples=40, deadline=None)
@given(texts=st.tuples(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS))
def test_any_text_is_kept_and_sent_as_it_is(
    fresh: Callable[[], AbstractContextManager[Ledger]], texts: tuple[str, str, str, str, str]
) -> None:
    id, origin, event, holder, handoff = texts
    with fresh() as ledger:
        file(ledger, new(id, origin=origin, event=event))
        held = ledger.claim(id, holder=holder, lease=LEASE, now=START)
        after = ledger.complete(id, fence=1, actor=holder, handoff=handoff, now=START)
        assert (held.id, held.origin, held.upstream_event, held.holder) == (id, origin, event, holder)
        assert (after.handoff, ledger.get(id, now=START)) == (handoff, after)
        filed, claimed, completed = (item.event for item in ledger.outgoing("d"))
        assert (filed.subject, filed.data["origin"], filed.data["upstream_event"]) == (id, origin, event)
        assert (claimed.actor, claimed.data["holder"], completed.data["handoff"]) == (holder, holder, handoff)


@pytest.mark.requirement("ledger:text:refused")
@pytest.mark.parametrize("text", ["", "a\0b", "a\ud800b", "\udfff"])
def test_text_that_cannot_be_logged_is_refused(backend: Ledger, text: str) -> None:
    file(backend, new("mem-a"), new("mem-b"))
    held = backend.claim("mem-b", holder=ONE, lease=LEASE, now=START)
    before = everything(backend)
    calls: list[Callable[[], object]] = [
        lambda: backend.file(new(text), actor=OWNER, now=START),
        lambda: backend.file(new("mem-c", text), actor=OWNER, now=START),
        lambda: backend.file(new("mem-c", origin=text, event="1"), actor=OWNER, now=START),
        lambda: backend.file(new("mem-c", origin="1", event=text), actor=OWNER, now=START),
        lambda: backend.file(new("mem-c"), actor=text, now=START),
        lambda: backend.claim_next(ALL, holder=text, lease=LEASE, now=START),
        lambda: backend.claim("mem-a", holder=text, lease=LEASE, now=START),
        lambda: backend.complete("mem-b", fence=held.fence, actor=text, handoff=None, now=START),
        lambda: backend.complete("mem-b", fence=held.fence, actor=ONE, handoff=text, now=START),
        lambda: backend.release("mem-b", fence=held.fence, actor=text, handoff=None, now=START),
        lambda: backend.release("mem-b", fence=held.fence, actor=ONE, handoff=text, now=START),
        lambda: backend.relabel("mem-a", label=Label.public, actor=text, now=START),
    ]
    for call in calls:
        with pytest.raises(InvalidError) as caught:
            call()
        assert caught.value.hint
    assert everything(backend) == before


@pytest.mark.requirement("ledger:number:refused")
@pytest.mark.parametrize("lease", [timedelta(0), -LEASE, timedelta.max])
def test_a_lease_that_cannot_be_is_refused(backend: Ledger, lease: timedelta) -> None:
    file(backend, new("mem-a"))
    with pytest.raises(InvalidError):
        backend.claim_next(ALL, holder=ONE, lease=lease, now=START)
    with pytest.raises(InvalidError):
        backend.claim("mem-a", holder=ONE, lease=lease, now=START)
    held = taken(backend)
    with pytest.raises(InvalidError):
        backend.heartbeat("mem-a", fence=held.fence, lease=lease, now=START)
    assert everything(backend) == [held]


@pytest.mark.requirement("ledger:number:refused")
def test_numbers_and_times_that_cannot_be_kept_are_refused(backend: Ledger) -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001  (what is refused)
    for task in [new("mem-a", priority=2**63), new("mem-a", priority=-(2**63) - 1)]:
        with pytest.raises(InvalidError):
            backend.file(task, actor=OWNER, now=START)
    with pytest.raises(InvalidError):
        backend.file(new("mem-a"), actor=OWNER, now=naive)
    with pytest.raises(InvalidError):
        backend.claim_next(ALL, holder=ONE, lease=LEASE, now=naive)
    for limit in (0, -1):
        with pytest.raises(InvalidError):
            backend.claim_next(ALL, holder=ONE, lease=LEASE, now=START, limit=limit)
        with pytest.raises(InvalidError):
            backend.tasks(ALL, now=START, limit=limit)
    assert everything(backend) == []


@pytest.mark.requirement("ledger:number:refused")
def test_the_extremes_that_can_be_kept_are_kept(backend: Ledger) -> None:
    first = datetime(1, 1, 1, tzinfo=UTC)
    last = datetime.max.replace(tzinfo=UTC)
    file(backend, new("mem-a", priority=2**63 - 1), new("mem-b", priority=-(2**63)), now=first)
    held = taken(backend, now=first, lease=last - first)
    assert (held.id, held.lease_until, held.updated) == ("mem-b", last, first)
    assert backend.get("mem-b", now=first) == held
    assert claim(backend, TWO, now=last - timedelta(microseconds=2), lease=timedelta(microseconds=1)) is not None
    assert backend.get("mem-b", now=last - timedelta(microseconds=1)) == held
