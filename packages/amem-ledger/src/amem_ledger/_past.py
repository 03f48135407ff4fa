"""What a domain's log comes to beside what its outbox holds: the rules that every ledger's tables follow.

``Past`` folds a whole log for a rebuild, ``Following`` the next events of one. Neither knows a
database: rows go in as tasks and come out as tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from amem_core.domain.task_events import FILED, LEASING, apply_event, diverged, event_of, filed_twice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from amem_core.domain.events import Event, NewEvent
    from amem_core.domain.tasks import Task

# A task, and when its lease began.
Held = tuple["Task", "datetime | None"]
_Filing = tuple[str, str, str]
_NOTHING: Final[tuple[None, None]] = (None, None)


class Waiting(NamedTuple):
    """A row of the outbox: ``task`` is the task as the event left it."""

    number: int
    kind: str
    actor: str
    task: Task

    @property
    def event(self) -> NewEvent:
        """The event itself."""
        return event_of(self.kind, self.task, actor=self.actor)


class Past:
    """What the log's events come to, and which of ``waiting``, the outbox's rows, are among them."""

    def __init__(self, waiting: Iterable[Waiting]) -> None:
        self.tasks: dict[str, Held] = {}
        self._filings: dict[_Filing, str] = {}
        self._waiting = {(item.task.id, item.task.revision): item.event for item in waiting}
        self._logged: set[tuple[str, int]] = set()

    def take(self, event: Event) -> None:
        """Take the log's next event.

        Raises:
            CorruptionError: it does not follow.
        """
        id, revision = event.subject, event.data.get("revision")
        task, began = self.tasks.get(id) or _NOTHING
        if _is_news(task, event):
            task = apply_event(task, event)
            filing = _filing(task) if event.kind == FILED else None
            if filing is not None and self._filings.setdefault(filing, id) != id:
                raise filed_twice(event, self._filings[filing])
            self.tasks[id] = (task, began_after(event.kind, task, began))
            revision = task.revision
        sent = self._waiting.get((id, revision)) if type(revision) is int else None
        if sent is not None and _tells_the_same(sent, event):
            self._logged.add((id, sent.data["revision"]))

    def behind(self, outbox: Sequence[Waiting]) -> tuple[dict[str, Held], list[int]]:
        """Return the tasks that the outbox changes, as it leaves them, and the numbers of the rows that must go.

        A row must go when its event is in the log, or does not follow from it, or from a row that must go.
        """
        changed: dict[str, Held] = {}
        filings: dict[_Filing, str] = {}
        dropped: set[str] = set()
        gone: list[int] = []
        for number, kind, _, after in outbox:
            id, revision = after.id, after.revision
            if (id, revision) in self._logged:
                gone.append(number)
                continue
            before, began = changed.get(id) or self.tasks.get(id) or _NOTHING
            filing = _filing(after) if kind == FILED else None
            taken = filing is not None and (filing in self._filings or filings.setdefault(filing, id) != id)
            if id in dropped or taken or revision != (1 if before is None else before.revision + 1):
                dropped.add(id)
                gone.append(number)
                continue
            changed[id] = (after, began_after(kind, after, began))
        return changed, gone


class Following:
    """What the log's next events make of the tasks that they name.

    ``known`` are those tasks as they are held, ``waiting`` what the outbox holds of them. ``changed``
    are the tasks that must be kept anew, ``sent`` the numbers of outgoing events that are in the log.
    """

    def __init__(self, known: Mapping[str, Held], waiting: Iterable[Waiting]) -> None:
        self.changed: dict[str, Held] = {}
        self.sent: list[int] = []
        self._known = known
        self._waiting = {(item.task.id, item.task.revision): item for item in waiting}

    def take(self, event: Event) -> None:
        """Take the log's next event.

        Raises:
            CorruptionError: it does not follow, or tells of another transition than the one in the outbox.
        """
        id = event.subject
        task, began = self.changed.get(id) or self._known.get(id) or _NOTHING
        if _is_news(task, event):
            task = apply_event(task, event)
            self.changed[id] = (task, began_after(event.kind, task, began))
            return
        waiting = self._waiting.pop((id, event.data["revision"]), None)
        if waiting is None:
            return
        if not _tells_the_same(waiting.event, event):
            raise diverged(event)
        self.sent.append(waiting.number)


def began_after(kind: str, after: Task, before: datetime | None) -> datetime | None:
    """Return when the lease of ``after`` began, ``before`` being what stood before the transition ``kind``."""
    if kind in LEASING:
        return after.updated
    return None if after.lease_until is None else before


def _is_news(task: Task | None, event: Event) -> bool:
    """Return whether the event is to be applied: what does not follow is refused there."""
    revision = event.data.get("revision")
    return task is None or type(revision) is not int or revision > task.revision or event.domain != task.domain


def _tells_the_same(sent: NewEvent, event: Event) -> bool:
    return (sent.kind, sent.actor, sent.time, sent.data) == (event.kind, event.actor, event.time, dict(event.data))


def _filing(task: Task) -> _Filing | None:
    if task.origin is None or task.upstream_event is None:
        return None
    return task.domain, task.origin, task.upstream_event
