"""Making a domain's tasks again from its log, beside the ledger in use.

The events are read and folded before the turn: whatever is claimed or completed meanwhile is in the
outbox, and stays there. The turn, one transaction, is held for as long as the rows take to be written,
some ten seconds for a million tasks; all changes, of every domain, wait for it, and readers see the
old rows until it ends. Memory holds each of the domain's tasks once, well under a kilobyte for a task,
and no events. The write-ahead log grows by the size of the rows until the next checkpoint.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Final

from amem_core.domain.task_events import FILED, LEASING, PREFIX, apply_event, filed_twice, time_text
from amem_core.errors import CorruptionError, UnavailableError
from amem_ledger import _queries as queries
from amem_ledger._rows import outgoing_of, row_of, task_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from amem_core.domain.events import Event, NewEvent
    from amem_core.domain.tasks import Task
    from amem_ledger._database import Database, Writing

# A task, and when its lease began.
_Held = tuple["Task", str | None]
_Filing = tuple[str, str, str]
_NOTHING: Final[tuple[None, None]] = (None, None)


def rebuild(database: Database, domain: str, events: Iterable[Event], *, through: int) -> int:
    """Replace the domain's rows by what ``events`` and the outbox come to; return the number of its tasks.

    Raises:
        CorruptionError: the events do not follow from each other, or name a task of another domain.
    """
    # Read before the log is: what joins the outbox later cannot be in it.
    past = _Past(_waiting(database, domain))
    for event in events:
        if event.kind.startswith(PREFIX):
            past.take(event)
    try:
        return _replace(database, domain, past, through)
    except UnavailableError as exc:
        if not exc.context.get("damaged"):
            raise
    database.start_anew()
    return _replace(database, domain, past, through)


def _waiting(database: Database, domain: str) -> list[tuple[Any, ...]]:
    """Return the outbox; a damaged file is set aside, and the new one's is empty."""
    try:
        with database.reading() as connection:
            if connection.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)]:
                return connection.execute(queries.WHOLE_OUTBOX, (domain,)).fetchall()
    except UnavailableError as exc:
        if not exc.context.get("damaged"):
            raise
    database.start_anew()
    return []


class _Past:
    """What the log's events come to, and which of ``waiting``, the outbox's rows, are among them."""

    def __init__(self, waiting: list[tuple[Any, ...]]) -> None:
        self.tasks: dict[str, _Held] = {}
        self._filings: dict[_Filing, str] = {}
        self._waiting: dict[tuple[str, int], NewEvent] = {(row[3], row[-1]): outgoing_of(row).event for row in waiting}
        self._logged: set[tuple[str, int]] = set()

    def take(self, event: Event) -> None:
        """Take the log's next event.

        Raises:
            CorruptionError: it does not follow.
        """
        id, revision = event.subject, event.data.get("revision")
        task, began = self.tasks.get(id) or _NOTHING
        if task is None or type(revision) is not int or revision > task.revision or event.domain != task.domain:
            task = apply_event(task, event)
            filing = _filing(task) if event.kind == FILED else None
            if filing is not None and self._filings.setdefault(filing, id) != id:
                raise filed_twice(event, self._filings[filing])
            self.tasks[id] = (task, _began(event.kind, task, began))
            revision = task.revision
        sent = self._waiting.get((id, revision))
        if sent is not None and (sent.kind, sent.actor, sent.time, sent.data) == (
            event.kind,
            event.actor,
            event.time,
            dict(event.data),
        ):
            self._logged.add((id, revision))

    def behind(self, outbox: Sequence[tuple[Any, ...]]) -> tuple[dict[str, _Held], list[int]]:
        """Return the tasks that the outbox's rows change, as they leave them, and the numbers of those that must go.

        A row must go when its event is in the log, or does not follow from it, or from a row that must go.
        """
        changed: dict[str, _Held] = {}
        filings: dict[_Filing, str] = {}
        dropped: set[str] = set()
        gone: list[int] = []
        for row in outbox:
            number, kind, id, revision = row[0], row[1], row[3], row[-1]
            if (id, revision) in self._logged:
                gone.append(number)
                continue
            before, began = changed.get(id) or self.tasks.get(id) or _NOTHING
            after = task_of(row[3:])
            filing = _filing(after) if kind == FILED else None
            taken = filing is not None and (filing in self._filings or filings.setdefault(filing, id) != id)
            if id in dropped or taken or revision != (1 if before is None else before.revision + 1):
                dropped.add(id)
                gone.append(number)
                continue
            changed[id] = (after, _began(kind, after, began))
        return changed, gone


def _filing(task: Task) -> _Filing | None:
    if task.origin is None or task.upstream_event is None:
        return None
    return task.domain, task.origin, task.upstream_event


def _began(kind: str, after: Task, before: str | None) -> str | None:
    if kind in LEASING:
        return time_text(after.updated)
    return None if after.lease_until is None else before


def _replace(database: Database, domain: str, past: _Past, through: int) -> int:
    with database.writing() as turn:
        turn.rows("BEGIN IMMEDIATE", ())
        changed, gone = past.behind(turn.rows(queries.WHOLE_OUTBOX, (domain,)))
        turn.connection.executemany(queries.SENT, [(domain, number) for number in gone])
        turn.rows(queries.FORGET, (domain,))
        held = {**past.tasks, **changed} if changed else past.tasks
        try:
            turn.connection.executemany(queries.REMAKE, ((*row_of(task), began) for task, began in held.values()))
        except sqlite3.IntegrityError:
            _refuse_taken(turn, domain, held)
            raise
        latest = max((began for _, began in held.values() if began is not None), default="")
        turn.rows(queries.REBUILT, (domain, through, latest))
        turn.rows("COMMIT", ())
    return len(held)


def _refuse_taken(turn: Writing, domain: str, held: Iterable[str]) -> None:
    """Say which id another domain has; when none has, the rows contradict each other, which is damage.

    Raises:
        CorruptionError: there is such an id.
    """
    for id in held:
        for (other,) in turn.rows(queries.ELSEWHERE, (id, domain)):
            message = f"the log of the domain {domain} files the task {id}, which is one of the domain {other}"
            raise CorruptionError(message, hint="look at the task.filed events of that id in both logs")
