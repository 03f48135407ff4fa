"""Leases and fences: when a hold ends, and what one who no longer holds may do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

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
from amem_core.domain.labels import Label
from amem_core.domain.queries import ReadFilter
from amem_core.domain.tasks import Task, TaskStatus
from amem_core.errors import ConflictError
from amem_core.ports.ledger import Ledger
from amem_core.testing import FrozenClock

TICK = timedelta(microseconds=1)
HOUR = timedelta(hours=1)


@pytest.mark.requirement("ledger:lease:runs-out")
def test_a_task_whose_lease_ran_out_is_claimed_in_its_old_place(backend: Ledger) -> None:
    file(backend, new("mem-a", priority=2), new("mem-b", priority=1), new("mem-c", priority=3))
    assert [taken(backend).id, taken(backend, lease=2 * LEASE).id] == ["mem-b", "mem-a"]
    later = START + LEASE
    again = taken(backend, TWO, now=later)
    assert (again.id, again.holder, again.fence, again.lease_until) == ("mem-b", TWO, 2, later + LEASE)
    assert [taken(backend, TWO, now=later).id, claim(backend, TWO, now=later)] == ["mem-c", None]


@pytest.mark.requirement("ledger:lease:boundary")
def test_a_lease_ends_at_its_end_and_not_before(backend: Ledger) -> None:
    file(backend, new("mem-a"))
    taken(backend)
    assert claim(backend, TWO, now=START + LEASE - TICK) is None
    with pytest.raises(ConflictError):
        backend.claim("mem-a", holder=TWO, lease=LEASE, now=START + LEASE - TICK)
    assert taken(backend, TWO, now=START + LEASE).fence == 2


@pytest.mark.requirement("ledger:lease:heartbeat")
def test_a_heartbeat_sets_the_lease_anew(backend: Ledger) -> None:
    file(backend, new("mem-a"))
    taken(backend)
    now = START + LEASE / 2
    renewed = backend.heartbeat("mem-a", fence=1, lease=LEASE, now=now)
    assert (renewed.lease_until, renewed.fence, renewed.holder, renewed.updated) == (now + LEASE, 1, ONE, now)
    assert claim(backend, TWO, now=START + LEASE) is None
    shorter = backend.heartbeat("mem-a", fence=1, lease=TICK, now=now)
    assert shorter.lease_until == now + TICK
    assert taken(backend, TWO, now=START + LEASE).fence == 2


@pytest.mark.requirement("ledger:lease:late-heartbeat")
def test_a_late_heartbeat_counts_while_nobody_has_claimed(backend: Ledger) -> None:
    file(backend, new("mem-a"))
    taken(backend)
    late = START + 3 * LEASE
    renewed = backend.heartbeat("mem-a", fence=1, lease=LEASE, now=late)
    assert (renewed.status, renewed.holder, renewed.lease_until) == (TaskStatus.claimed, ONE, late + LEASE)
    assert claim(backend, TWO, now=late) is None


@pytest.mark.requirement("ledger:lease:late-complete")
def test_a_late_holder_completes_or_releases_while_nobody_has_claimed(backend: Ledger) -> None:
    file(backend, new("mem-a"), new("mem-b"))
    first, second = taken(backend), taken(backend)
    late = START + 3 * LEASE
    assert done(backend, first, now=late).status is TaskStatus.completed
    released = backend.release(second.id, fence=1, actor=ONE, handoff="mem-h", now=late)
    assert (released.status, released.handoff) == (TaskStatus.ready, "mem-h")


@pytest.mark.requirement("ledger:lease:clock-back")
@pytest.mark.parametrize("back", [timedelta(seconds=30), HOUR, timedelta(days=4000)])
def test_a_clock_that_jumps_back_gives_no_live_lease_away(backend: Ledger, clock: FrozenClock, back: timedelta) -> None:
    file(backend, new("mem-a"), new("mem-b"))
    held = [taken(backend, now=clock.now()), taken(backend, now=clock.now())]
    now = clock.advance(seconds=-back.total_seconds())
    assert claim(backend, TWO, now=now) is None
    for task in held:
        with pytest.raises(ConflictError, match=ONE):
            backend.claim(task.id, holder=TWO, lease=LEASE, now=now)
        assert backend.get(task.id, now=now).holder == ONE
        assert backend.heartbeat(task.id, fence=1, lease=LEASE, now=now).lease_until == now + LEASE


def _jump_back(ledger: Ledger, look: Callable[[Ledger, datetime], object]) -> datetime:
    """Claim, jump back an hour, let ``look`` look; return the time of the look."""
    file(ledger, new("mem-a"))
    taken(ledger)
    now = START - HOUR
    look(ledger, now)
    return now


def _look_by_id(ledger: Ledger, now: datetime) -> None:
    with pytest.raises(ConflictError, match="2026-01-01T11:10:00"):
        ledger.claim("mem-a", holder=TWO, lease=LEASE, now=now)


_LOOKS: list[Callable[[Ledger, datetime], object]] = [lambda ledger, now: claim(ledger, TWO, now=now), _look_by_id]


@pytest.mark.requirement("ledger:lease:clock-back:ends")
@pytest.mark.parametrize("look", _LOOKS)
def test_a_lease_from_the_future_ends_one_length_after_the_first_look(
    backend: Ledger, look: Callable[[Ledger, datetime], object]
) -> None:
    now = _jump_back(backend, look)
    seen = backend.get("mem-a", now=now)
    assert (seen.holder, seen.fence, seen.lease_until) == (ONE, 1, now + LEASE)
    assert claim(backend, TWO, now=now + LEASE - TICK) is None
    again = taken(backend, TWO, now=now + LEASE)
    assert (again.id, again.fence) == ("mem-a", 2)


@pytest.mark.requirement("ledger:lease:clock-back:ends")
def test_a_second_look_does_not_make_such_a_lease_longer(backend: Ledger) -> None:
    now = _jump_back(backend, lambda ledger, now: claim(ledger, TWO, now=now))
    assert claim(backend, TWO, now=now + LEASE / 2) is None
    assert backend.get("mem-a", now=now).lease_until == now + LEASE
    assert kinds(backend) == ["task.filed", "task.claimed", "task.rebased"]


@pytest.mark.requirement("ledger:lease:clock-back:ends")
def test_a_claim_that_finds_another_task_is_a_look_as_well(backend: Ledger) -> None:
    file(backend, new("mem-a"), new("mem-b"))
    taken(backend)
    now = START - HOUR
    assert taken(backend, TWO, now=now).id == "mem-b"
    assert backend.get("mem-a", now=now).lease_until == now + LEASE


@pytest.mark.requirement("ledger:lease:clock-back:ends")
def test_a_look_at_one_domain_leaves_the_others_alone(backend: Ledger) -> None:
    file(backend, new("mem-a", "d"), new("mem-b", "e"))
    held = {task.id: task for task in (taken(backend), taken(backend))}
    backend.claim_next(ReadFilter({"d": Label.restricted}), holder=TWO, lease=LEASE, now=START - HOUR)
    assert backend.get("mem-b", now=START - HOUR) == held["mem-b"]
    assert backend.get("mem-a", now=START - HOUR).revision == 3


@pytest.mark.requirement("ledger:lease:clock-back:ends")
def test_each_lease_keeps_its_own_length(backend: Ledger) -> None:
    file(backend, new("mem-a"), new("mem-b"), new("mem-c"))
    taken(backend, lease=LEASE)
    taken(backend, lease=3 * LEASE)
    taken(backend, lease=TICK)
    backend.heartbeat("mem-c", fence=1, lease=2 * LEASE, now=START + timedelta(seconds=1))
    now = START - HOUR
    assert claim(backend, TWO, now=now) is None
    assert [task.lease_until for task in everything(backend, now)] == [now + LEASE, now + 3 * LEASE, now + 2 * LEASE]


@pytest.mark.requirement("ledger:lease:clock-skew")
def test_callers_whose_times_cross_leave_each_others_leases_alone(backend: Ledger) -> None:
    file(backend, *(new(f"mem-{number}") for number in range(4)))
    held = taken(backend, now=START + timedelta(seconds=1))
    for number in range(3):
        taken(backend, TWO, now=START - timedelta(milliseconds=number))
    assert claim(backend, TWO, now=START) is None
    assert backend.get(held.id, now=START) == held
    assert "task.rebased" not in kinds(backend)


def _holder_calls(ledger: Ledger, task: Task, now: datetime) -> list[Callable[[], Task]]:
    """Return what a holder can do, ready to be called."""
    return [
        lambda: ledger.heartbeat(task.id, fence=task.fence, lease=LEASE, now=now),
        lambda: ledger.complete(task.id, fence=task.fence, actor=ONE, handoff="mem-mine", now=now),
        lambda: ledger.release(task.id, fence=task.fence, actor=ONE, handoff="mem-mine", now=now),
    ]


@pytest.mark.requirement("ledger:fence:stale")
@pytest.mark.requirement("ledger:fence:message")
def test_a_holder_that_was_overtaken_is_refused_with_who_holds_it_now(backend: Ledger) -> None:
    file(backend, new("mem-a"))
    stale = taken(backend)
    now = START + LEASE
    held = taken(backend, TWO, now=now)
    for call in _holder_calls(backend, stale, now):
        with pytest.raises(ConflictError, match=rf"mem-a.*{TWO}.*2026-01-01T12:20:00.*fence 2") as caught:
            call()
        assert caught.value.hint
        assert caught.value.context["holder"] == TWO
    assert everything(backend, now) == [held]


@pytest.mark.requirement("ledger:fence:stale")
@pytest.mark.parametrize("fence", [0, 2, -1, 2**80])
def test_a_fence_that_was_never_given_is_refused(backend: Ledger, fence: int) -> None:
    file(backend, new("mem-a"))
    held = taken(backend)
    with pytest.raises(ConflictError, match=ONE):
        backend.complete("mem-a", fence=fence, actor=ONE, handoff=None, now=START)
    assert everything(backend) == [held]


@pytest.mark.requirement("ledger:fence:paused-holder")
def test_the_result_of_the_second_holder_stands(backend: Ledger) -> None:
    file(backend, new("mem-a"))
    paused = taken(backend)
    now = START + LEASE
    result = done(backend, taken(backend, TWO, now=now), now=now, handoff="mem-theirs")
    later = now + HOUR
    for call in _holder_calls(backend, paused, later):
        with pytest.raises(ConflictError, match=TWO):
            call()
    assert backend.get("mem-a", now=later) == result
    assert result.handoff == "mem-theirs"


@pytest.mark.requirement("ledger:fence:paused-holder")
def test_a_paused_holder_is_refused_after_the_second_gave_the_task_back(backend: Ledger) -> None:
    file(backend, new("mem-a"))
    paused = taken(backend)
    now = START + LEASE
    backend.release("mem-a", fence=taken(backend, TWO, now=now).fence, actor=TWO, handoff=None, now=now)
    for call in _holder_calls(backend, paused, now):
        with pytest.raises(ConflictError, match="nobody"):
            call()


@pytest.mark.requirement("ledger:fence:not-claimed")
def test_what_is_released_or_completed_has_no_holder(backend: Ledger) -> None:
    file(backend, new("mem-a"), new("mem-b"), new("mem-c"))
    first, second = taken(backend), taken(backend)
    done(backend, first)
    backend.release(second.id, fence=1, actor=ONE, handoff=None, now=START)
    before = everything(backend)
    for task in [*before, first, second]:
        for call in _holder_calls(backend, task, START):
            with pytest.raises(ConflictError) as caught:
                call()
            assert caught.value.hint
    assert everything(backend) == before


@pytest.mark.requirement("ledger:release:pool")
def test_a_released_task_is_claimed_again_with_what_was_left(backend: Ledger) -> None:
    file(backend, new("mem-a"))
    taken(backend)
    released = backend.release("mem-a", fence=1, actor=ONE, handoff="mem-h", now=START)
    assert (released.status, released.holder, released.lease_until) == (TaskStatus.ready, None, None)
    assert (released.handoff, released.fence) == ("mem-h", 1)
    again = taken(backend, TWO)
    assert (again.handoff, again.fence, again.holder) == ("mem-h", 2, TWO)


@pytest.mark.requirement("ledger:complete:state")
def test_a_completed_task_keeps_what_was_left_and_has_no_lease(backend: Ledger) -> None:
    file(backend, new("mem-a"))
    now = START + timedelta(seconds=3)
    completed = done(backend, taken(backend), now=now, handoff="mem-h")
    assert (completed.status, completed.lease_until, completed.handoff) == (TaskStatus.completed, None, "mem-h")
    assert (completed.fence, completed.updated, completed.revision) == (1, now, 3)
    assert backend.get("mem-a", now=now + HOUR) == completed


@pytest.mark.requirement("ledger:handoff:stays")
def test_a_holder_who_leaves_no_handoff_leaves_the_earlier_one(backend: Ledger) -> None:
    file(backend, new("mem-a"))
    backend.release("mem-a", fence=taken(backend).fence, actor=ONE, handoff="mem-h", now=START)
    released = backend.release("mem-a", fence=taken(backend).fence, actor=ONE, handoff=None, now=START)
    assert released.handoff == "mem-h"
    assert done(backend, taken(backend)).handoff == "mem-h"


@pytest.mark.requirement("ledger:relabel:state")
def test_a_new_label_counts_at_once_and_the_holder_stays(backend: Ledger) -> None:
    file(backend, new("mem-a"), new("mem-b"))
    held = taken(backend)
    relabelled = backend.relabel("mem-a", label=Label.restricted, actor=OWNER, now=START)
    backend.relabel("mem-b", label=Label.restricted, actor=OWNER, now=START)
    assert (relabelled.label, relabelled.holder, relabelled.lease_until) == (Label.restricted, ONE, held.lease_until)
    readable = ReadFilter({"d": Label.confidential})
    assert backend.tasks(readable, now=START) == []
    assert backend.claim_next(readable, holder=TWO, lease=LEASE, now=START + LEASE) == []
    backend.relabel("mem-b", label=Label.public, actor=OWNER, now=START)
    assert [task.id for task in backend.claim_next(readable, holder=TWO, lease=LEASE, now=START)] == ["mem-b"]
    assert done(backend, held).label is Label.restricted


@pytest.mark.requirement("ledger:relabel:state")
def test_a_relabelled_task_whose_lease_ran_out_is_shown_ready(backend: Ledger) -> None:
    file(backend, new("mem-a"))
    taken(backend)
    shown = backend.relabel("mem-a", label=Label.public, actor=OWNER, now=START + LEASE)
    assert (shown.status, shown.label) == (TaskStatus.ready, Label.public)
    assert backend.heartbeat("mem-a", fence=1, lease=LEASE, now=START + LEASE).holder == ONE


@pytest.mark.requirement("ledger:get:shown")
def test_a_task_is_shown_as_it_is_at_the_time_asked_for(backend: Ledger) -> None:
    file(backend, new("mem-a"))
    held = taken(backend)
    assert backend.get("mem-a", now=START + LEASE - TICK) == held
    shown = backend.get("mem-a", now=START + LEASE)
    assert (shown.status, shown.holder, shown.lease_until) == (TaskStatus.ready, None, None)
    assert (shown.fence, shown.revision) == (held.fence, held.revision)


@pytest.mark.requirement("ledger:tasks:listing")
def test_a_listing_is_by_id_and_can_be_paged(backend: Ledger) -> None:
    names = [f"mem-{number:02}" for number in range(25)]
    file(backend, *(new(name, "de"[number % 2], priority=-number) for number, name in enumerate(reversed(names))))
    assert [task.id for task in backend.tasks(ALL, now=START)] == names
    paged: list[str] = []
    after = None
    while page := backend.tasks(ALL, now=START, after=after, limit=4):
        assert len(page) <= 4
        paged += [task.id for task in page]
        after = paged[-1]
    assert paged == names


@pytest.mark.requirement("ledger:tasks:filters")
def test_a_listing_is_narrowed_by_what_is_asked(backend: Ledger) -> None:
    file(backend, new("mem-a", origin="task:mem-p", event="1"), new("mem-b", origin="task:mem-p"))
    file(backend, new("mem-c", origin="continues:mem-p"), new("mem-d", "e", label=Label.public), new("mem-e", "f"))
    done(backend, taken(backend))
    taken(backend)

    def ids(now: datetime, readable: ReadFilter = ALL, origin: str | None = None, *statuses: TaskStatus) -> list[str]:
        return [task.id for task in backend.tasks(readable, now=now, statuses=statuses, origin=origin)]

    ready, claimed, completed = TaskStatus
    assert ids(START) == ["mem-a", "mem-b", "mem-c", "mem-d"]
    assert ids(START, ALL, None, ready) == ["mem-c", "mem-d"]
    assert ids(START, ALL, None, claimed) == ["mem-b"]
    assert ids(START, ALL, None, completed, claimed) == ["mem-a", "mem-b"]
    assert ids(START, ALL, None, ready, claimed, completed) == ids(START)
    later = START + LEASE
    assert ids(later, ALL, None, ready) == ["mem-b", "mem-c", "mem-d"]
    assert ids(later, ALL, None, claimed) == []
    assert ids(later, ALL, None, ready, completed) == ids(START)
    assert ids(START, ALL, "task:mem-p") == ["mem-a", "mem-b"]
    assert ids(START, ALL, "task:mem-p", completed) == ["mem-a"]
    assert ids(START, ALL, "task:mem-q") == []
    assert ids(START, ReadFilter({"d": Label.public, "e": Label.public})) == ["mem-d"]
    assert ids(START, ReadFilter({"d": Label.internal, "f": Label.public})) == ["mem-a", "mem-b", "mem-c"]
    assert ids(START, ReadFilter({})) == []


@pytest.mark.requirement("ledger:apply:leases")
def test_a_lease_that_came_from_the_log_runs_out_and_heeds_the_clock(backend: Ledger, clock: FrozenClock) -> None:
    book = Book()
    file(backend, new("mem-a"), new("mem-b"), now=clock.now())
    taken(backend, now=clock.now())
    backend.heartbeat(taken(backend, now=clock.now()).id, fence=1, lease=2 * LEASE, now=clock.now())
    book.carry(backend)
    book.rebuild(backend)
    assert claim(backend, TWO, now=clock.now()) is None
    now = clock.advance(hours=-1)
    assert claim(backend, TWO, now=now) is None
    assert [task.lease_until for task in everything(backend, now)] == [now + LEASE, now + 2 * LEASE]
    assert [taken(backend, TWO, now=now + 2 * LEASE).id for _ in "ab"] == ["mem-a", "mem-b"]
