"""The ledger on one SQLite file, ``state/ledger.sqlite``: the default.

A change is one statement and one commit; triggers put its event into the outbox in the same commit.
``synchronous`` is NORMAL, so that a commit does not wait for the disk, and that is safe: nothing is
acknowledged before its event is in the domain's log, durably. After a power loss the file is what it
was a moment earlier, whole, and

- an event that is in the log and was lost here comes back through ``apply``,
- an event that is in the outbox here and in the log already only leaves the outbox, through ``apply``,
- an event that is in the outbox and not in the log was never acknowledged; the next relay sends it.

So a caller follows the log before its first change to a domain, and relays under the log's writer.

A lease that has run out needs no sweeper: the claim takes it. Its holder may go on, and renew or
complete it, for as long as nobody else has claimed: the fence is still current. What counts as the
first look at a lease after the clock has jumped back is the next claim, by whomever, in its domain;
times that are up to ``SKEW`` behind are callers that were waiting, not a clock that jumped.
"""

from __future__ import annotations

import os
import sqlite3
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from amem_core.domain.task_events import (
    COMPLETED,
    FILED,
    PREFIX,
    REBASED,
    RELABELLED,
    RELEASED,
    RENEWED,
    SKEW,
    check_handoff,
    check_limit,
    check_new_task,
    check_text,
    claim_refused,
    fence_refused,
    file_task,
    filed_otherwise,
    is_utf8,
    lease_end,
    no_such_task,
    seen_at,
    time_text,
    utc,
)
from amem_core.domain.tasks import Task, TaskStatus
from amem_core.errors import CorruptionError
from amem_core.ports.ledger import LedgerCapabilities
from amem_ledger import _queries as queries
from amem_ledger._database import Database
from amem_ledger._past import Following
from amem_ledger._rebuild import rebuild
from amem_ledger._rows import held_of, held_row, latest_lease, outgoing_of, row_of, task_of, waiting_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from amem_core.domain.events import Event
    from amem_core.domain.labels import Label
    from amem_core.domain.queries import ReadFilter
    from amem_core.domain.tasks import NewTask, Outgoing
    from amem_core.ports.ledger import Ledger
    from amem_ledger._database import Writing
    from amem_ledger.config import SqliteSettings

_CHUNK = 1000
# What SQLite can be asked for; no fence is above it.
_MOST = 2**63 - 1
# A wait that moves the caller's time on: it may have been stopped, or asleep, in the queue.
_LONG_WAIT = 1.0


def open_ledger(root: str, settings: SqliteSettings) -> Ledger:
    """Return the ledger of ``root``. The file is opened, or made, at the first call.

    Every call may then raise ``UnknownFormatError`` when a newer amem wrote the file, and
    ``UnavailableError`` when it is damaged: ``rebuild`` starts a new one in its place.
    """
    return SqliteLedger(root, settings)


class SqliteLedger:
    """See the module and ``amem_core.ports.ledger``."""

    def __init__(self, root: str, settings: SqliteSettings) -> None:
        self._database = Database(root, settings)

    @property
    def capabilities(self) -> LedgerCapabilities:
        """Any number of processes on one machine."""
        name = os.path.basename(self._database.path)
        return LedgerCapabilities(multi_process=True, files=(name, f"{name}-wal", f"{name}-shm", f"{name}-journal"))

    def file(self, task: NewTask, *, actor: str, now: datetime) -> tuple[Task, bool]:
        """File a task, once."""
        check_new_task(task)
        check_text("actor", actor)
        filed = file_task(task, now=utc(now))
        values = (*row_of(filed), FILED, actor)
        with self._database.writing() as turn:
            if turn.rows(queries.FILE, values):
                return filed, True
            earlier = _one(turn, queries.BY_FILING, (task.domain, task.origin, task.upstream_event))
            if earlier is None:
                earlier = _known(turn, task.id)
        same = (task.domain, task.origin, task.upstream_event)
        if (earlier.domain, earlier.origin, earlier.upstream_event) != same:
            raise filed_otherwise(earlier)
        return seen_at(earlier, filed.created), False

    def claim_next(
        self, readable: ReadFilter, *, holder: str, lease: timedelta, now: datetime, limit: int = 1
    ) -> list[Task]:
        """Claim the first tasks that are free."""
        check_text("holder", holder)
        limit = check_limit(limit)
        until = lease_end(now, lease)
        if not readable.domains:
            return []
        with self._database.writing() as turn:
            now, end = _present(now, until, turn)
            moment = time_text(now)
            sql, where = queries.claim_next(readable.domains, moment, limit)
            rows = turn.rows(sql, (holder, end, moment, moment, holder, *where))
            latest = [row[-1] for row in rows] or turn.rows(queries.LATEST_RENEWAL, ())[0]
            if max(latest) > moment:
                self._rebase(turn, readable.domains, actor=holder, now=now)
        tasks = [task_of(row) for row in rows]
        if len(tasks) > 1:
            tasks.sort(key=lambda task: (task.priority, task.id))
        return tasks

    def claim(self, id: str, *, holder: str, lease: timedelta, now: datetime) -> Task:
        """Claim one task."""
        check_text("holder", holder)
        until = lease_end(now, lease)
        with self._database.writing() as turn:
            now, end = _present(now, until, turn)
            moment = time_text(now)
            rows = turn.rows(queries.CLAIM, (holder, end, moment, moment, holder, _key(id), moment))
            if rows:
                if rows[0][-1] > moment:
                    self._rebase(turn, (rows[0][1],), actor=holder, now=now)
                return task_of(rows[0])
            task = _known(turn, id)
            self._rebase(turn, (task.domain,), actor=holder, now=now)
            raise claim_refused(_known(turn, id))

    def heartbeat(self, id: str, *, fence: int, lease: timedelta, now: datetime) -> Task:
        """Renew a lease."""
        until = time_text(lease_end(now, lease))
        moment = time_text(now)
        return self._held(queries.RENEW, (until, moment, moment, RENEWED), id, fence=fence, now=now)

    def complete(self, id: str, *, fence: int, actor: str, handoff: str | None, now: datetime) -> Task:
        """Complete a held task."""
        check_text("actor", actor)
        values = (check_handoff(handoff), time_text(now), COMPLETED, actor)
        return self._held(queries.COMPLETE, values, id, fence=fence, now=now)

    def release(self, id: str, *, fence: int, actor: str, handoff: str | None, now: datetime) -> Task:
        """Give a held task back."""
        check_text("actor", actor)
        values = (check_handoff(handoff), time_text(now), RELEASED, actor)
        return self._held(queries.RELEASE, values, id, fence=fence, now=now)

    def relabel(self, id: str, *, label: Label, actor: str, now: datetime) -> Task:
        """Follow a task entry's label."""
        check_text("actor", actor)
        values = (int(label), time_text(now), RELABELLED, actor, _key(id))
        with self._database.writing() as turn:
            rows = turn.rows(queries.RELABEL, values)
        if not rows:
            raise no_such_task(id)
        return seen_at(task_of(rows[0]), now)

    def get(self, id: str, *, now: datetime) -> Task:
        """Return one task as it is at ``now``."""
        with self._database.reading() as connection:
            row = connection.execute(queries.BY_ID, (_key(id),)).fetchone()
        if row is None:
            raise no_such_task(id)
        return seen_at(task_of(row), utc(now))

    def tasks(
        self,
        readable: ReadFilter,
        *,
        now: datetime,
        statuses: Sequence[TaskStatus] = (),
        origin: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[Task]:
        """Return tasks by id."""
        limit = check_limit(limit)
        if not readable.domains:
            return []
        sql, values = queries.tasks(
            readable.domains,
            time_text(now),
            statuses=statuses,
            origin=origin and check_text("origin", origin),
            after=after and check_text("id", after),
            limit=limit,
        )
        with self._database.reading() as connection:
            rows = connection.execute(sql, values).fetchall()
        return [seen_at(task_of(row), now) for row in rows]

    def outgoing(self, domain: str, *, limit: int = 1000) -> list[Outgoing]:
        """Return the outbox, oldest first."""
        with self._database.reading() as connection:
            rows = connection.execute(queries.OUTGOING, (domain, check_limit(limit))).fetchall()
        return [outgoing_of(row) for row in rows]

    def relayed(self, domain: str, *, number: int, through: int) -> None:
        """Take what is in the log out of the outbox."""
        with self._database.writing() as turn:
            if number > 0:
                turn.rows(queries.RELAYED, (domain, through, number))
            else:
                turn.rows(queries.FOLLOWED, (domain, through, ""))

    def watermark(self, domain: str) -> int:
        """Return how far the log was followed."""
        with self._database.reading() as connection:
            row = connection.execute(queries.WATERMARK, (domain,)).fetchone()
        return 0 if row is None else int(row[0])

    def apply(self, domain: str, events: Iterable[Event], *, through: int) -> None:
        """Follow the log, a thousand events to a commit; no turn is held while ``events`` is read.

        Raises:
            CorruptionError: an event does not follow from those before it, or tells of another
                transition than the one recorded here: the log is right, and ``amem reindex`` follows it.
        """
        stream = iter(events)
        while chunk := list(islice(stream, _CHUNK)):
            own = [event for event in chunk if event.kind.startswith(PREFIX)]
            self._follow(domain, own, through=min(chunk[-1].seq, through))
        self._follow(domain, [], through=through)

    def rebuild(self, domain: str, events: Iterable[Event], *, through: int) -> int:
        """Make the domain's tasks again; see the port, and ``amem_ledger._rebuild`` for what it costs."""
        return rebuild(self._database, domain, events, through=through)

    def close(self) -> None:
        """Release what is held."""
        self._database.close()

    def _held(self, sql: str, values: tuple[Any, ...], id: str, *, fence: int, now: datetime) -> Task:
        """Run a change that only the holder may make."""
        with self._database.writing() as turn:
            rows = turn.rows(sql, (*values, _key(id), fence if abs(fence) <= _MOST else -1))
            if not rows:
                raise fence_refused(_known(turn, id), fence=fence, now=now)
        return task_of(rows[0])

    def _rebase(self, turn: Writing, domains: Iterable[str], *, actor: str, now: datetime) -> None:
        """Let leases that began later than ``now`` begin now, when the clock has jumped back."""
        moment = time_text(now)
        horizon = _horizon(now)
        for domain in domains:
            if not turn.rows(queries.JUMPED, (domain, horizon)):
                continue
            turn.rows("BEGIN IMMEDIATE", ())
            later = turn.rows(queries.BEGAN_LATER, (domain, moment, moment))
            latest = max((began for _, began, _ in later), default=moment)
            if latest > horizon:
                latest = moment
                for id, began, until in later:
                    lease = datetime.fromisoformat(until) - datetime.fromisoformat(began)
                    turn.rows(queries.REBASE, (time_text(now + lease), moment, moment, REBASED, actor, id))
            turn.rows(queries.NO_LATER, (latest, domain))
            turn.rows("COMMIT", ())

    def _follow(self, domain: str, events: list[Event], *, through: int) -> None:
        with self._database.writing() as turn:
            turn.rows("BEGIN IMMEDIATE", ())
            following = self._following(turn, domain, events)
            for event in events:
                following.take(event)
            turn.connection.executemany(queries.SENT, [(domain, number) for number in following.sent])
            changed = following.changed.values()
            try:
                turn.connection.executemany(queries.KEEP, [held_row(*each) for each in changed])
            except sqlite3.IntegrityError as exc:
                message = f"the log of the domain {domain} files one origin and event twice, up to event {through}"
                raise CorruptionError(message, hint="look at its task.filed events with that origin") from exc
            turn.rows(queries.FOLLOWED, (domain, through, latest_lease(changed)))
            turn.rows("COMMIT", ())

    def _following(self, turn: Writing, domain: str, events: list[Event]) -> Following:
        """Return what is held of the tasks that ``events`` name, ready to follow them."""
        ids = {event.subject for event in events}
        rows = [row for id in ids for row in turn.rows(queries.WITH_LEASE, (id,))]
        outbox = turn.rows(queries.WHOLE_OUTBOX, (domain,)) if ids else []
        return Following({row[0]: held_of(row) for row in rows}, (waiting_of(row) for row in outbox if row[3] in ids))


def _present(now: datetime, until: datetime, turn: Writing) -> tuple[datetime, str]:
    """Return the caller's time and its lease's end, both moved on by a long wait for the turn."""
    now = utc(now)
    if turn.waited >= _LONG_WAIT:
        waited = timedelta(seconds=turn.waited)
        return now + waited, time_text(lease_end(until, waited))
    return now, time_text(until)


def _horizon(now: datetime) -> str:
    try:
        return time_text(now + SKEW)
    except OverflowError:
        return time_text(now)


def _one(turn: Writing, sql: str, values: Sequence[Any]) -> Task | None:
    rows = turn.rows(sql, values)
    return task_of(rows[0]) if rows else None


def _known(turn: Writing, id: str) -> Task:
    task = _one(turn, queries.BY_ID, (_key(id),))
    if task is None:
        raise no_such_task(id)
    return task


def _key(id: str) -> str:
    """Return ``id``, or the empty text, which no task has, for one that SQLite cannot be asked for."""
    return id if id.isascii() or is_utf8(id) else ""
