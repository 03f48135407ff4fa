"""Making a domain's tasks again from its log, beside the ledger in use.

The events are read and folded before the turn: whatever is claimed or completed meanwhile is in the
outbox, and stays there. The turn, one transaction, is held for as long as the rows take to be written,
some ten seconds for a million tasks; all changes, of every domain, wait for it, and readers see the
old rows until it ends. Memory holds each of the domain's tasks once, well under a kilobyte for a task,
and no events. The write-ahead log grows by the size of the rows until the next checkpoint.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from amem_core.domain.task_events import PREFIX
from amem_core.errors import CorruptionError, UnavailableError
from amem_ledger import _queries as queries
from amem_ledger._past import Past
from amem_ledger._rows import held_row, latest_lease, waiting_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amem_core.domain.events import Event
    from amem_ledger._database import Database, Writing


def rebuild(database: Database, domain: str, events: Iterable[Event], *, through: int) -> int:
    """Replace the domain's rows by what ``events`` and the outbox come to; return the number of its tasks.

    Raises:
        CorruptionError: the events do not follow from each other, or name a task of another domain.
    """
    # Read before the log is: what joins the outbox later cannot be in it.
    past = Past(waiting_of(row) for row in _waiting(database, domain))
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


def _replace(database: Database, domain: str, past: Past, through: int) -> int:
    with database.writing() as turn:
        turn.rows("BEGIN IMMEDIATE", ())
        changed, gone = past.behind([waiting_of(row) for row in turn.rows(queries.WHOLE_OUTBOX, (domain,))])
        turn.connection.executemany(queries.SENT, [(domain, number) for number in gone])
        turn.rows(queries.FORGET, (domain,))
        held = {**past.tasks, **changed} if changed else past.tasks
        try:
            turn.connection.executemany(queries.REMAKE, (held_row(*each) for each in held.values()))
        except sqlite3.IntegrityError:
            _refuse_taken(turn, domain, held)
            raise
        turn.rows(queries.REBUILT, (domain, through, latest_lease(held.values())))
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
