"""Following a domain's log, and making its tasks again from it, beside the ledger in use.

Both hold the domain's lock alone, so that no change is half way; both write what differs and nothing
else. A rebuild folds the events before it takes the lock: whatever is claimed or completed meanwhile
is in the outbox, and stays there. The lock is then held for as long as the domain's rows take to be
read and compared, some ten seconds for a million tasks: changes of that domain wait for it (up to
``lock_timeout``), those of others do not, and readers see the old rows until it commits. Memory holds
each of the domain's tasks once, well under a kilobyte for a task, and no events.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from psycopg import errors

from amem_core.domain.task_events import PREFIX
from amem_core.errors import CorruptionError
from amem_ledger._past import Following, Past
from amem_ledger.postgres._rows import filing_of, row_of, task_of, utc_of, waiting_of
from amem_ledger.postgres._statements import LOCK, routing, statements

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from psycopg import Connection

    from amem_core.domain.events import Event
    from amem_ledger._past import Held, Waiting
    from amem_ledger.postgres._connections import Connections
    from amem_ledger.postgres._places import Places
    from amem_ledger.postgres._schema import Place

_CHUNK = 1000
# The outbox whole: PostgreSQL counts no further.
_ALL = 2**63 - 1


def follow(connection: Connection, ledger: str, place: Place, events: Sequence[Event], *, through: int) -> None:
    """Take the log's next events, which are all of tasks, in one commit and two trips.

    Raises:
        CorruptionError: one does not follow, or tells of another transition than the one in the outbox.
    """
    own, shared = statements(ledger, place), routing(ledger)
    values: dict[str, Any] = {"ids": sorted({event.subject for event in events}), "domain": place.domain}
    with _in_one_step(connection, place):
        with connection.pipeline():
            connection.execute("BEGIN")
            connection.execute(LOCK, (place.lock,))
            waiting = connection.execute(own.waiting, values)
            held = connection.execute(own.held, values)
            elsewhere = connection.execute(shared.elsewhere, values)
        known = {row[0]: _held_of(row) for row in (*held.fetchall(), *elsewhere.fetchall())}
        following = Following(known, [waiting_of(row) for row in waiting.fetchall()])
        for event in events:
            following.take(event)
        new = [id for id in following.changed if id not in known]
        with connection.pipeline():
            for held_row in _rows_of(following.changed.values()):
                connection.execute(own.keep, held_row)
            if new:
                connection.execute(shared.add, {"ids": new, "domain": place.domain})
            if following.sent:
                connection.execute(own.sent, {"numbers": following.sent})
            connection.execute(own.followed, {"domain": place.domain, "through": through})
            connection.execute("COMMIT")


def rebuild(connections: Connections, places: Places, domain: str, events: Iterable[Event], *, through: int) -> int:
    """Make the domain's rows what ``events`` and the outbox come to; return the number of its tasks.

    Raises:
        CorruptionError: the events do not follow from each other, or name a task of another domain.
    """
    ledger = places.ledger

    def waiting(connection: Connection) -> list[Waiting]:
        place = places.repair(connection, domain)
        rows = connection.execute(statements(ledger, place).outgoing, {"limit": _ALL}).fetchall()
        return [waiting_of(row) for row in rows]

    # Read before the log is: what joins the outbox later cannot be in it.
    past = Past(connections.run(waiting))
    for event in events:
        if event.kind.startswith(PREFIX):
            past.take(event)

    def replace(connection: Connection) -> int:
        return _replace(connection, ledger, places.repair(connection, domain), past, through)

    return connections.run(replace)


def _replace(connection: Connection, ledger: str, place: Place, past: Past, through: int) -> int:
    own, shared = statements(ledger, place), routing(ledger)
    with _in_one_step(connection, place), connection.transaction():
        # As long as it takes: an operator asked for it, and others see the old rows meanwhile.
        connection.execute("SET LOCAL statement_timeout = 0")
        connection.execute(LOCK, (place.lock,))
        outbox = [waiting_of(row) for row in connection.execute(own.outgoing, {"limit": _ALL}).fetchall()]
        changed, gone = past.behind(outbox)
        held = {**past.tasks, **changed} if changed else past.tasks
        differing, new, old = _compared(_rows(connection, own.all_held), held)
        routed = {str(row[0]) for row in connection.execute(shared.in_domain, {"domain": place.domain}).fetchall()}
        connection.execute(own.sent, {"numbers": gone})
        connection.execute(own.forget, {"ids": old})
        connection.execute(shared.remove, {"domain": place.domain, "ids": [id for id in routed if id not in held]})
        connection.execute(own.unfile, {"ids": differing})
        with connection.cursor() as cursor:
            for ids in _chunks([*differing, *new]):
                cursor.executemany(own.keep, _rows_of(held[id] for id in ids))
        for ids in _chunks([id for id in held if id not in routed]):
            taken = connection.execute(shared.elsewhere, {"ids": ids, "domain": place.domain}).fetchone()
            if taken is not None:
                raise _is_elsewhere(place.domain, taken[0], taken[1])
            connection.execute(shared.add, {"ids": ids, "domain": place.domain})
        connection.execute(own.rebuilt, {"domain": place.domain, "through": through})
    return len(held)


def _compared(rows: Iterable[Held], held: dict[str, Held]) -> tuple[list[str], list[str], list[str]]:
    """Return the ids whose rows differ from ``held``, those that have no row, and those that have a row too much."""
    differing: list[str] = []
    old: list[str] = []
    seen: set[str] = set()
    for found in rows:
        id = found[0].id
        wanted = held.get(id)
        if wanted is None:
            old.append(id)
            continue
        seen.add(id)
        if wanted != found:
            differing.append(id)
    return differing, [id for id in held if id not in seen], old


def _rows(connection: Connection, query: bytes) -> Iterator[Held]:
    """Yield the rows of a query, a thousand in memory at a time."""
    with connection.cursor("rows") as cursor:
        cursor.itersize = _CHUNK
        for row in cursor.execute(query):
            yield _held_of(row)


def _rows_of(held: Iterable[Held]) -> list[tuple[Any, ...]]:
    return [(*row_of(task), began, filing_of(task.origin, task.upstream_event)) for task, began in held]


@contextmanager
def _in_one_step(connection: Connection, place: Place) -> Generator[None]:
    """End a transaction that failed; two tasks that claim one filing or one id are the log's fault.

    Raises:
        CorruptionError: there are two.
    """
    try:
        yield
    except errors.UniqueViolation as exc:
        connection.rollback()
        if exc.diag.table_name == "route":
            message = (
                f"the log of the domain {place.domain} files a task whose id another domain took at the same moment"
            )
            raise CorruptionError(message, hint="look at the task.filed events of the last minutes") from exc
        message = f"the log of the domain {place.domain} files one origin and event twice"
        raise CorruptionError(message, hint="look at its task.filed events with that origin") from exc
    except BaseException:
        if not connection.closed:
            connection.rollback()
        raise


def _is_elsewhere(domain: str, id: str, other: str) -> CorruptionError:
    message = f"the log of the domain {domain} files the task {id}, which is one of the domain {other}"
    return CorruptionError(message, hint="look at the task.filed events of that id in both logs")


def _held_of(row: Sequence[Any]) -> Held:
    return task_of(row), None if row[-1] is None else utc_of(row[-1])


def _chunks(ids: Sequence[str]) -> Iterator[list[str]]:
    stream = iter(ids)
    while chunk := list(islice(stream, _CHUNK)):
        yield chunk
