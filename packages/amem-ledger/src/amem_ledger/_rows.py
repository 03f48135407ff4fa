"""Between rows and tasks. Column order is that of ``COLUMNS`` everywhere."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from amem_core.domain.labels import Label
from amem_core.domain.task_events import time_text
from amem_core.domain.tasks import Outgoing, Task, TaskStatus
from amem_ledger._past import Waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from amem_ledger._past import Held

COLUMNS = (
    "id, domain, label, status, priority, origin, upstream_event, holder, fence, lease_until, handoff, created,"
    " updated, revision"
)
NUMBERS = {TaskStatus.ready: 0, TaskStatus.claimed: 1, TaskStatus.completed: 2}
STATUSES = {number: status for status, number in NUMBERS.items()}
_LABELS = {int(label): label for label in Label}
_time = datetime.fromisoformat


def task_of(row: Sequence[Any]) -> Task:
    """Return the task of a row; what stands behind the columns is passed over."""
    until = row[9]
    return Task(
        id=row[0],
        domain=row[1],
        label=_LABELS[row[2]],
        status=STATUSES[row[3]],
        priority=row[4],
        origin=row[5],
        upstream_event=row[6],
        holder=row[7],
        fence=row[8],
        lease_until=None if until is None else _time(until),
        handoff=row[10],
        created=_time(row[11]),
        updated=_time(row[12]),
        revision=row[13],
    )


def row_of(task: Task) -> tuple[Any, ...]:
    """Return the columns of a task."""
    return (
        task.id,
        task.domain,
        int(task.label),
        NUMBERS[task.status],
        task.priority,
        task.origin,
        task.upstream_event,
        task.holder,
        task.fence,
        None if task.lease_until is None else time_text(task.lease_until),
        task.handoff,
        time_text(task.created),
        time_text(task.updated),
        task.revision,
    )


def held_row(task: Task, began: datetime | None) -> tuple[Any, ...]:
    """Return the columns of a task, and when its lease began."""
    return (*row_of(task), None if began is None else time_text(began))


def held_of(row: Sequence[Any]) -> Held:
    """Return the task of a row whose last column is when its lease began."""
    return task_of(row), None if row[-1] is None else _time(row[-1])


def latest_lease(held: Iterable[Held]) -> str:
    """Return when the last lease among ``held`` began, the empty text for none."""
    return max((time_text(began) for _, began in held if began is not None), default="")


def waiting_of(row: Sequence[Any]) -> Waiting:
    """Return the outgoing event of an outbox row: number, kind, actor and the columns."""
    return Waiting(row[0], row[1], row[2], task_of(row[3:]))


def outgoing_of(row: Sequence[Any]) -> Outgoing:
    """Return what the port gives of an outbox row."""
    waiting = waiting_of(row)
    return Outgoing(waiting.number, waiting.event)
