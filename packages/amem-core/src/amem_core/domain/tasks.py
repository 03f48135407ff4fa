"""A task: a promise on the ledger. Its text is an entry of type ``task`` with the same id."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from amem_core.domain.events import NewEvent
from amem_core.domain.labels import Label


class TaskStatus(StrEnum):
    """Where a task stands. A claimed task whose lease has run out is ``ready`` again."""

    ready = "ready"
    claimed = "claimed"
    completed = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The ledger's state of one task.

    ``priority``: lower is claimed first. ``fence`` grows with each claim; it is 0 before the first.
    ``revision`` counts the task's events from 1. ``lease_until`` is set while it is claimed.
    ``handoff`` is the id of the entry that the last holder left.
    """

    id: str
    domain: str
    label: Label
    status: TaskStatus
    priority: int
    origin: str | None
    upstream_event: str | None
    holder: str | None
    fence: int
    lease_until: datetime | None
    handoff: str | None
    created: datetime
    updated: datetime
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """What is needed to file a task. ``(origin, upstream_event)`` is filed once per domain when both are set."""

    id: str
    domain: str
    label: Label
    priority: int = 100
    origin: str | None = None
    upstream_event: str | None = None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A ledger event on its way to the domain's log; ``number`` orders them within the domain."""

    number: int
    event: NewEvent
