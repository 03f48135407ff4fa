"""Between PostgreSQL's rows and tasks. Column order is that of ``COLUMNS`` everywhere."""

from __future__ import annotations

from datetime import UTC
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from amem_core.domain.labels import Label
from amem_core.domain.tasks import Task
from amem_ledger._past import Waiting
from amem_ledger._rows import NUMBERS, STATUSES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

_LABELS = {int(label): label for label in Label}


def utc_of(time: datetime) -> datetime:
    """Return a time that the driver gave: it is in UTC, as the session's zone is, under another object for the zone."""
    return time.replace(tzinfo=UTC)


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
        lease_until=None if until is None else until.replace(tzinfo=UTC),
        handoff=row[10],
        created=row[11].replace(tzinfo=UTC),
        updated=row[12].replace(tzinfo=UTC),
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
        task.lease_until,
        task.handoff,
        task.created,
        task.updated,
        task.revision,
    )


def waiting_of(row: Sequence[Any]) -> Waiting:
    """Return the outgoing event of an outbox row: number, kind, actor and the columns."""
    return Waiting(row[0], row[1], row[2], task_of(row[3:]))


def filing_of(origin: str | None, upstream_event: str | None) -> bytes | None:
    """Return what a filing is known by: texts of any length are too long for an index, their digest is not."""
    if origin is None or upstream_event is None:
        return None
    parts = [text.encode() for text in (origin, upstream_event)]
    return sha256(b"".join(len(part).to_bytes(8) + part for part in parts)).digest()
