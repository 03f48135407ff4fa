"""Claiming: in order, only what may be read, and never one task twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amem_conformance.suite.ledger._making import (
    ALL,
    LEASE,
    ONE,
    START,
    TWO,
    claim,
    done,
    everything,
    file,
    kinds,
    new,
    taken,
)
from amem_conformance.suite.ledger._processes import in_processes
from amem_core.domain.labels import Label
from amem_core.domain.queries import CLOSED, ReadFilter
from amem_core.domain.tasks import Task, TaskStatus
from amem_core.errors import ConflictError, NotFoundError
from amem_core.ports.ledger import Ledger

TASKS = 60


@pytest.mark.requirement("ledger:claim:state")
def test_a_claimed_task_names_its_holder_and_its_end(backend: Ledger) -> None:
    (filed,) = file(backend, new("mem-a"))
    now = START + timedelta(seconds=1)
    held = taken(backend, now=now)
    assert (held.status, held.holder, held.fence, held.revision) == (TaskStatus.claimed, ONE, 1, 2)
    assert (held.lease_until, held.updated, held.created) == (now + LEASE, now, filed.created)
    assert backend.get("mem-a", now=now) == held


@pytest.mark.requirement("ledger:claim:order")
@settings(max_examples=30, deadline=None)
@given(priorities=st.lists(st.integers(-3, 3), max_size=12), order=st.randoms(use_true_random=False))
def test_tasks_are_claimed_by_priority_and_then_by_id(
    fresh: Callable[[], AbstractContextManager[Ledger]], priorities: list[int], order: random.Random
) -> None:
    tasks = [
        new(f"mem-{number:02}", "d" if number % 2 else "e", priority=priority)
        for number, priority in enumerate(priorities)
    ]
    order.shuffle(tasks)
    with fresh() as ledger:
        file(ledger, *tasks)
        claimed: list[tuple[int, str]] = []
        while task := claim(ledger):
            claimed.append((task.priority, task.id))
        assert claimed == sorted((task.priority, task.id) for task in tasks)


@pytest.mark.requirement("ledger:claim:many")
@pytest.mark.parametrize("limit", [1, 3, 10, 5000])
def test_as_many_as_are_asked_for_are_claimed_in_order(backend: Ledger, limit: int) -> None:
    file(backend, *(new(f"mem-{number}", "de"[number % 2], priority=-number) for number in range(7)))
    claimed = backend.claim_next(ALL, holder=ONE, lease=LEASE, now=START, limit=limit)
    assert [task.id for task in claimed] == [f"mem-{number}" for number in (6, 5, 4, 3, 2, 1, 0)[:limit]]
    assert all((task.holder, task.fence) == (ONE, 1) for task in claimed)


@pytest.mark.requirement("ledger:claim:none")
def test_with_nothing_to_claim_the_answer_is_empty(backend: Ledger) -> None:
    assert claim(backend) is None
    file(backend, new("mem-a"), new("mem-b"))
    done(backend, taken(backend))
    taken(backend)
    before = everything(backend), kinds(backend)
    assert claim(backend, TWO) is None
    assert (everything(backend), kinds(backend)) == before


@pytest.mark.requirement("ledger:claim:readable")
def test_only_readable_domains_and_labels_are_claimed(backend: Ledger) -> None:
    for domain in ("d", "e", "f"):
        for label in Label:
            file(backend, new(f"mem-{domain}{int(label)}", domain, label=label, priority=-int(label)))
    readable = ReadFilter({"d": Label.public, "e": Label.confidential, "nowhere": Label.restricted})
    claimed = backend.claim_next(readable, holder=ONE, lease=LEASE, now=START, limit=100)
    assert [task.id for task in claimed] == ["mem-e2", "mem-e1", "mem-d0", "mem-e0"]
    assert backend.claim_next(readable, holder=ONE, lease=LEASE, now=START) == []
    again = backend.claim_next(ReadFilter({"e": Label.public}), holder=TWO, lease=LEASE, now=START + LEASE, limit=100)
    assert [task.id for task in again] == ["mem-e0"]
    assert backend.claim_next(CLOSED, holder=ONE, lease=LEASE, now=START) == []


@pytest.mark.requirement("ledger:claim:readable:many-domains")
@pytest.mark.parametrize("count", [2, 100, 101, 1500])
def test_any_number_of_domains_may_be_readable(backend: Ledger, count: int) -> None:
    domains = {f"d{number}": Label(number % 4) for number in range(count)}
    file(
        backend, new("mem-a", f"d{count - 1}", label=Label((count - 1) % 4), priority=2), new("mem-b", "d0", priority=1)
    )
    file(backend, new("mem-c", "d1", label=Label.public, priority=3), new("mem-x", "x", priority=0))
    claimed = backend.claim_next(ReadFilter(domains), holder=ONE, lease=LEASE, now=START, limit=2)
    assert [task.id for task in claimed] == ["mem-a", "mem-c"]
    assert [task.id for task in backend.tasks(ReadFilter(domains), now=START)] == ["mem-a", "mem-c"]
    later = backend.claim_next(ReadFilter(domains), holder=TWO, lease=LEASE, now=START + LEASE)
    assert [task.id for task in later] == ["mem-a"]


@pytest.mark.requirement("ledger:claim:by-id")
def test_a_task_is_claimed_by_id(backend: Ledger) -> None:
    file(backend, new("mem-a", priority=1), new("mem-b", priority=2))
    held = backend.claim("mem-b", holder=ONE, lease=LEASE, now=START)
    assert (held.id, held.holder, held.fence, held.lease_until) == ("mem-b", ONE, 1, START + LEASE)
    assert taken(backend, TWO).id == "mem-a"
    again = backend.claim("mem-b", holder=TWO, lease=LEASE, now=START + LEASE)
    assert (again.holder, again.fence) == (TWO, 2)


@pytest.mark.requirement("ledger:claim:held")
def test_a_held_task_is_refused_with_who_holds_it_and_until_when(backend: Ledger) -> None:
    file(backend, new("mem-a"))
    held = taken(backend)
    with pytest.raises(ConflictError, match=rf"mem-a.*{ONE}.*2026-01-01T12:10:00") as caught:
        backend.claim("mem-a", holder=TWO, lease=LEASE, now=START)
    assert caught.value.hint
    assert everything(backend) == [held]


@pytest.mark.requirement("ledger:claim:completed")
def test_a_completed_task_is_never_claimed_again(backend: Ledger) -> None:
    file(backend, new("mem-a"))
    completed = done(backend, taken(backend))
    much_later = START + timedelta(days=900)
    with pytest.raises(ConflictError, match="completed") as caught:
        backend.claim("mem-a", holder=TWO, lease=LEASE, now=much_later)
    assert caught.value.hint
    assert claim(backend, TWO, now=much_later) is None
    assert everything(backend) == [completed]


@pytest.mark.requirement("ledger:claim:unknown")
@pytest.mark.parametrize("id", ["mem-a", "", "naïve", "a\0b", "\ud800"])
def test_an_unknown_id_is_not_found(backend: Ledger, id: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: backend.claim(id, holder=ONE, lease=LEASE, now=START),
        lambda: backend.heartbeat(id, fence=1, lease=LEASE, now=START),
        lambda: backend.complete(id, fence=1, actor=ONE, handoff=None, now=START),
        lambda: backend.release(id, fence=1, actor=ONE, handoff=None, now=START),
        lambda: backend.relabel(id, label=Label.public, actor=ONE, now=START),
        lambda: backend.get(id, now=START),
    ]
    for call in calls:
        with pytest.raises(NotFoundError) as caught:
            call()
        assert caught.value.hint
    assert kinds(backend) == []


Claims = list[tuple[str, int]]


def _work(ledger: Ledger, holder: str) -> Claims:
    """Claim until nothing is left: complete what was held before, give back what was not."""
    claims: Claims = []
    while task := claim(ledger, holder):
        claims.append((task.id, task.fence))
        assert task.holder == holder
        if task.fence > 1:
            done(ledger, task)
        else:
            ledger.release(task.id, fence=task.fence, actor=holder, handoff=None, now=START)
    return claims


def _check(ledger: Ledger, answers: list[Claims]) -> None:
    """No hold was given twice, none is missing, and each task was completed by its second holder."""
    given = Counter((id, fence) for claims in answers for id, fence in claims)
    assert given == Counter((f"mem-{number:03}", fence) for number in range(TASKS) for fence in (1, 2))
    assert all((task.status, task.fence, task.revision) == (TaskStatus.completed, 2, 5) for task in everything(ledger))
    assert len(ledger.outgoing("d")) == 5 * TASKS


@pytest.mark.requirement("ledger:claim:atomic:threads")
def test_eight_threads_never_hold_one_task_at_once(backend: Ledger) -> None:
    file(backend, *(new(f"mem-{number:03}") for number in range(TASKS)))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(_work, [backend] * 8, [f"session:{number}" for number in range(8)]))
    _check(backend, answers)


@pytest.mark.requirement("ledger:claim:atomic:threads")
def test_threads_that_claim_many_or_by_id_never_hold_one_task_at_once(backend: Ledger) -> None:
    file(backend, *(new(f"mem-{number:03}") for number in range(TASKS)))

    def work(number: int) -> list[Task]:
        holder = f"session:{number}"
        mine: list[Task] = []
        if number % 2:
            while claimed := backend.claim_next(ALL, holder=holder, lease=LEASE, now=START, limit=3):
                mine += claimed
            return mine
        for each in range(TASKS):
            try:
                mine.append(backend.claim(f"mem-{each:03}", holder=holder, lease=LEASE, now=START))
            except ConflictError:
                continue
        return mine

    with ThreadPoolExecutor(8) as pool:
        claimed = [task for tasks in pool.map(work, range(8)) for task in tasks]
    assert sorted(task.id for task in claimed) == [f"mem-{number:03}" for number in range(TASKS)]
    assert {task.fence for task in claimed} == {1}
    assert sorted(claimed, key=lambda task: task.id) == everything(backend)


@pytest.mark.requirement("ledger:claim:atomic:processes")
def test_four_processes_never_hold_one_task_at_once(backend: Ledger, second: Callable[[], Ledger]) -> None:
    file(backend, *(new(f"mem-{number:03}") for number in range(TASKS)))
    answers = in_processes(lambda number: _work(second(), f"session:{number}"), 4)
    _check(backend, answers)
