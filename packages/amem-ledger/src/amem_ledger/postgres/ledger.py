"""The ledger in PostgreSQL: for many machines, and for one that has a database already.

A change is one statement and one commit, which puts its event into the outbox as well. Claims skip
what others are claiming at the same moment, so that any number of processes claim side by side; when
nothing is left beside that, the claim waits for those others before it says that there is nothing.

Commits are as durable as the server makes them, except where the log is the durable truth: that an
event was relayed, and how far the log was followed, does not wait for the disk, and what a crash takes
of it comes back through ``apply``. A caller follows the log before its first change to a domain, and
relays under the log's writer.

Time is the caller's, from the machine that it runs on. On several machines their clocks decide who
may claim: a lease ends, for each of them, by its own clock. A clock that is up to ``SKEW`` behind the
latest renewal is taken for a caller that was waiting; one that is further behind is taken to have
jumped back, and the leases count anew from its time, so that they end, for the others, earlier by as
much as it is behind. The fence decides in either case, so that no work is done twice, but work may be
lost. Keep the clocks within a second of each other (NTP does); ``amem doctor`` compares this machine's
with the server's. A claim that waits for a lock does not get that time added to its lease.
"""

from __future__ import annotations

import secrets
import time
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg import errors, pq

from amem_core.domain.task_events import (
    CLAIMED,
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
    utc,
)
from amem_core.domain.tasks import Outgoing, TaskStatus
from amem_core.errors import InternalError, UnavailableError
from amem_core.ports.ledger import LedgerCapabilities
from amem_ledger.postgres import _schema as schema
from amem_ledger.postgres import _statements as statements
from amem_ledger.postgres._checks import check
from amem_ledger.postgres._connections import Connections
from amem_ledger.postgres._following import follow, rebuild
from amem_ledger.postgres._places import Places
from amem_ledger.postgres._rows import filing_of, task_of, utc_of, waiting_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from psycopg import Connection

    from amem_core.domain.events import Event
    from amem_core.domain.labels import Label
    from amem_core.domain.queries import ReadFilter
    from amem_core.domain.results import Check
    from amem_core.domain.tasks import NewTask, Task
    from amem_core.ports.ledger import Ledger
    from amem_ledger.config import PostgresSettings
    from amem_ledger.postgres._schema import Place
    from amem_ledger.postgres._statements import Statements

Answer = TypeVar("Answer")

_CHUNK = 1000
# What PostgreSQL can be asked for; no fence is above it.
_MOST = 2**63 - 1
# A wait that moves the caller's time on: it may have been stopped, or asleep, before its turn.
_LONG_WAIT = 1.0
# How often a call is made anew because the task changed between its refusal and the look at why.
_LOOKS = 20


def open_ledger(root: str, settings: PostgresSettings) -> Ledger:  # noqa: ARG001  (nothing of it is in the root)
    """Return the ledger that ``settings`` point to. A connection is made, and the tables are, at the first call.

    Every call may then raise ``UnknownFormatError`` when a newer amem made the tables, and
    ``UnavailableError`` when they are not what amem made: ``rebuild`` makes what is missing.

    Raises:
        ConfigError: the dsn cannot be read.
    """
    return PostgresLedger(settings)


class PostgresLedger:
    """See the module and ``amem_core.ports.ledger``."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._ledger = settings.schema
        self._places = Places(settings.schema)
        self._connections = Connections(settings, self._prepare)

    @property
    def capabilities(self) -> LedgerCapabilities:
        """Any number of processes on any number of machines."""
        return LedgerCapabilities(multi_process=True)

    def file(self, task: NewTask, *, actor: str, now: datetime) -> tuple[Task, bool]:
        """File a task, once."""
        check_new_task(task)
        check_text("actor", actor)
        filed = file_task(task, now=utc(now))
        filing = filing_of(task.origin, task.upstream_event)
        values = {
            "id": task.id,
            "domain": task.domain,
            "label": int(task.label),
            "priority": task.priority,
            "origin": task.origin,
            "event": task.upstream_event,
            "now": filed.created,
            "filing": filing,
            "kind": FILED,
            "actor": actor,
            "token": _token(),
        }

        def work(connection: Connection) -> tuple[Task, bool]:
            place = self._places.make(connection, task.domain)
            own = self._statements(place)
            for _ in range(_LOOKS):
                try:
                    if connection.execute(own.file, values).fetchone() is not None:
                        return filed, True
                except errors.UniqueViolation:
                    # The id is in use in another domain; nothing was filed.
                    self._places.forget(task.id)
                found = None
                if filing is not None:
                    found = connection.execute(own.by_filing, {"filing": filing}).fetchone()
                found = found or self._row(connection, task.id)
                if found is not None:
                    # Filed on a connection that was lost, or by somebody before.
                    return task_of(found), found[-1] == values["token"]
            raise self._restless(task.id)

        earlier, created = self._run(work, changing=True)
        if created:
            return filed, True
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
        until = utc(lease_end(now, lease))
        now = utc(now)
        domains = readable.domains
        if not domains:
            return []
        began = time.monotonic()
        token = _token()
        values: dict[str, Any] = {"holder": holder, "kind": CLAIMED, "token": token}

        def work(connection: Connection) -> list[tuple[Any, ...]]:
            places = self._known(connection, domains)
            if not places:
                return []
            moment, end = _present(now, until, time.monotonic() - began)
            given = values | {"now": moment, "until": end} | _named(domains, places)
            rows: list[tuple[Any, ...]] = []
            for wait in (False, True):
                rows = connection.execute(self._claim(domains, places, limit, wait=wait), given).fetchall()
                if rows[0][0] is not None:
                    break
            latest = max((row[-1] for row in rows if row[-1] is not None), default=None)
            if latest is not None and utc_of(latest) > _horizon(moment):
                for place in places:
                    self._rebase(connection, place, actor=holder, now=moment)
            return [] if rows[0][0] is None else rows

        def recover(connection: Connection) -> list[tuple[Any, ...]] | None:
            connection.execute("SELECT pg_advisory_lock(%(token)s), pg_advisory_unlock(%(token)s)", {"token": token})
            found: list[tuple[Any, ...]] = []
            for place in self._known(connection, domains):
                found += connection.execute(self._statements(place).by_token, {"token": token, "id": None}).fetchall()
            return found or None

        tasks = [task_of(row) for row in self._run(work, recover=recover, changing=True)]
        self._places.remember((task.id, task.domain) for task in tasks)
        tasks.sort(key=lambda task: (task.priority, task.id))
        return tasks

    def claim(self, id: str, *, holder: str, lease: timedelta, now: datetime) -> Task:
        """Claim one task."""
        check_text("holder", holder)
        until = utc(lease_end(now, lease))
        now = utc(now)
        began = time.monotonic()
        values: dict[str, Any] = {"id": _key(id), "holder": holder, "kind": CLAIMED, "actor": holder}

        def work(connection: Connection, place: Place, token: int) -> Task:
            moment, end = _present(now, until, time.monotonic() - began)
            given = values | {"now": moment, "until": end, "token": token}
            row = connection.execute(self._statements(place).claim, given).fetchone()
            if row is not None:
                if row[-1] is not None and utc_of(row[-1]) > _horizon(moment):
                    self._rebase(connection, place, actor=holder, now=moment)
                return task_of(row)
            task = self._known_task(connection, id)
            if seen_at(task, moment).status is TaskStatus.ready:
                raise _ChangedError
            self._rebase(connection, place, actor=holder, now=moment)
            raise claim_refused(self._known_task(connection, id))

        return self._change(id, work)

    def heartbeat(self, id: str, *, fence: int, lease: timedelta, now: datetime) -> Task:
        """Renew a lease."""
        values = {"until": utc(lease_end(now, lease)), "kind": RENEWED}
        return self._held(id, lambda own: own.renew, values, fence=fence, now=utc(now))

    def complete(self, id: str, *, fence: int, actor: str, handoff: str | None, now: datetime) -> Task:
        """Complete a held task."""
        values = {"handoff": check_handoff(handoff), "kind": COMPLETED, "actor": check_text("actor", actor)}
        return self._held(id, lambda own: own.complete, values, fence=fence, now=utc(now))

    def release(self, id: str, *, fence: int, actor: str, handoff: str | None, now: datetime) -> Task:
        """Give a held task back."""
        values = {"handoff": check_handoff(handoff), "kind": RELEASED, "actor": check_text("actor", actor)}
        return self._held(id, lambda own: own.release, values, fence=fence, now=utc(now))

    def relabel(self, id: str, *, label: Label, actor: str, now: datetime) -> Task:
        """Follow a task entry's label."""
        now = utc(now)
        values = {
            "id": _key(id),
            "label": int(label),
            "now": now,
            "kind": RELABELLED,
            "actor": check_text("actor", actor),
        }

        def work(connection: Connection, place: Place, token: int) -> Task:
            row = connection.execute(self._statements(place).relabel, values | {"token": token}).fetchone()
            if row is None:
                self._known_task(connection, id)
                raise _ChangedError
            return task_of(row)

        return seen_at(self._change(id, work), now)

    def get(self, id: str, *, now: datetime) -> Task:
        """Return one task as it is at ``now``."""
        return seen_at(self._run(lambda connection: self._known_task(connection, id)), utc(now))

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
        now = utc(now)
        origin = origin and check_text("origin", origin)
        after = after and check_text("id", after)
        if not readable.domains:
            return []
        groups = _groups(readable.domains)
        listing = statements.tasks(
            self._ledger, tuple(groups), frozenset(statuses), origin=origin is not None, after=after is not None
        )
        values = {"now": now, "origin": origin, "after": after, "limit": limit, **_by_label(groups)}
        found = self._run(lambda connection: connection.execute(listing, values).fetchall())
        tasks = [task_of(row) for row in found]
        self._places.remember((task.id, task.domain) for task in tasks)
        return [seen_at(task, now) for task in tasks]

    def outgoing(self, domain: str, *, limit: int = 1000) -> list[Outgoing]:
        """Return the outbox, oldest first: no event that is committed later has a lower number than one of these."""
        limit = check_limit(limit)

        def work(connection: Connection) -> list[tuple[Any, ...]]:
            place = self._places.find(connection, domain)
            if place is None:
                return []
            # What is sent together is one transaction, and each statement sees what was committed before it.
            with connection.pipeline():
                connection.execute(statements.LOCK, (place.lock,))
                cursor = connection.execute(self._statements(place).outgoing, {"limit": limit})
            return cursor.fetchall()

        waiting = [waiting_of(row) for row in self._run(work)]
        return [Outgoing(item.number, item.event) for item in waiting]

    def relayed(self, domain: str, *, number: int, through: int) -> None:
        """Take what is in the log out of the outbox."""
        if number <= 0:
            self._pass(domain, through)
            return
        values = {"domain": domain, "number": min(number, _MOST), "through": through}

        def work(connection: Connection) -> None:
            place = self._places.find(connection, domain)
            if place is not None:
                connection.execute(self._statements(place).relayed, values)

        self._run(work)

    def watermark(self, domain: str) -> int:
        """Return how far the log was followed."""
        query = statements.routing(self._ledger).watermark
        row = self._run(lambda connection: connection.execute(query, {"domain": domain}).fetchone())
        return 0 if row is None else int(row[0])

    def apply(self, domain: str, events: Iterable[Event], *, through: int) -> None:
        """Follow the log, a thousand events to a commit; nothing is held while ``events`` is read.

        Raises:
            CorruptionError: an event does not follow from those before it, or tells of another
                transition than the one recorded here: the log is right, and ``amem reindex`` follows it.
        """
        stream = iter(events)
        reached = -1
        while chunk := list(islice(stream, _CHUNK)):
            own = [event for event in chunk if event.kind.startswith(PREFIX)]
            if own:
                reached = min(chunk[-1].seq, through)
                self._follow(domain, own, reached)
        if reached < through:
            self._pass(domain, through)

    def rebuild(self, domain: str, events: Iterable[Event], *, through: int) -> int:
        """Make the domain's tasks again; see the port, and ``_following`` for what it costs."""
        self._places.forget_all()
        return rebuild(self._connections, self._places, domain, events, through=through)

    def check(self, *, now: datetime) -> Iterable[Check]:
        """Try what the ledger needs of the server; see ``amem_core.ports.checks``."""
        began = time.monotonic()
        address = self._connections.address
        return self._run(lambda connection: check(connection, self._ledger, address, now=now, began=began))

    def close(self) -> None:
        """Release what is held."""
        self._connections.close()

    # -- what the calls stand on ------------------------------------------------------------------

    def _prepare(self, connection: Connection) -> None:
        schema.check_pipelines(pq.version() >= _PIPELINES, self._connections.address)
        schema.prepare(connection, self._ledger, self._connections.address)

    def _run(
        self,
        work: Callable[[Connection], Answer],
        *,
        recover: Callable[[Connection], Answer | None] | None = None,
        changing: bool = False,
    ) -> Answer:
        try:
            return self._connections.run(work, recover=recover, changing=changing)
        except UnavailableError as exc:
            if exc.context.get("damaged"):
                self._places.forget_all()
            raise

    def _statements(self, place: Place) -> Statements:
        return statements.statements(self._ledger, place)

    def _known(self, connection: Connection, domains: Mapping[str, Label]) -> list[Place]:
        if len(domains) == 1:
            place = self._places.find(connection, next(iter(domains)))
            return [] if place is None else [place]
        # Asked each time: a domain that had nothing may have something now.
        return self._places.look(connection, list(domains))

    def _claim(self, domains: Mapping[str, Label], places: Sequence[Place], limit: int, *, wait: bool) -> bytes:
        if len(places) == 1:
            return statements.claim_next(self._ledger, places[0], limit, wait=wait)
        groups = _groups({place.domain: domains[place.domain] for place in places})
        return statements.claim_from_many(self._ledger, tuple(groups), limit, wait=wait)

    def _row(self, connection: Connection, id: str) -> tuple[Any, ...] | None:
        place = self._places.of_task(connection, id)
        if place is None:
            return None
        return connection.execute(self._statements(place).by_id, {"id": id}).fetchone()

    def _known_task(self, connection: Connection, id: str) -> Task:
        key = _key(id)
        row = self._row(connection, key)
        if row is None:
            self._places.forget(key)
            row = self._row(connection, key)
        if row is None:
            raise no_such_task(id)
        return task_of(row)

    def _change(self, id: str, work: Callable[[Connection, Place, int], Task]) -> Task:
        """Make a change of one task; made anew while the task changes between a refusal and the look at why."""
        key, token = _key(id), _token()

        def change(connection: Connection) -> Task:
            for _ in range(_LOOKS):
                place = self._places.of_task(connection, key)
                if place is None:
                    raise no_such_task(id)
                try:
                    return work(connection, place, token)
                except _ChangedError:
                    self._places.forget(key)
            raise self._restless(id)

        def recover(connection: Connection) -> Task | None:
            connection.execute("SELECT pg_advisory_lock(%(token)s), pg_advisory_unlock(%(token)s)", {"token": token})
            place = self._places.of_task(connection, key)
            if place is None:
                return None
            row = connection.execute(self._statements(place).by_token, {"token": token, "id": key}).fetchone()
            return None if row is None else task_of(row)

        return self._run(change, recover=recover, changing=True)

    def _held(
        self, id: str, statement: Callable[[Statements], bytes], values: dict[str, Any], *, fence: int, now: datetime
    ) -> Task:
        """Make a change that only the holder may make."""
        values |= {"id": _key(id), "fence": fence if abs(fence) <= _MOST else -1, "now": now}

        def work(connection: Connection, place: Place, token: int) -> Task:
            row = connection.execute(statement(self._statements(place)), values | {"token": token}).fetchone()
            if row is not None:
                return task_of(row)
            task = self._known_task(connection, id)
            if task.status is TaskStatus.claimed and task.fence == fence:
                raise _ChangedError
            raise fence_refused(task, fence=fence, now=now)

        return self._change(id, work)

    def _rebase(self, connection: Connection, place: Place, *, actor: str, now: datetime) -> None:
        """Let leases that began later than ``now`` begin now, when the clock has jumped back."""
        values = {"now": now, "horizon": _horizon(now), "kind": REBASED, "actor": actor, "token": _token()}
        connection.execute(self._statements(place).rebase, values)

    def _follow(self, domain: str, events: list[Event], through: int) -> None:
        def work(connection: Connection) -> None:
            place = self._places.make(connection, domain)
            follow(connection, self._ledger, place, events, through=through)

        self._run(work)
        self._places.remember((event.subject, domain) for event in events)

    def _pass(self, domain: str, through: int) -> None:
        values = {"domain": domain, "through": through}

        def work(connection: Connection) -> None:
            if through > 0:
                place = self._places.make(connection, domain)
                connection.execute(self._statements(place).passed, values)

        self._run(work)

    def _restless(self, id: str) -> InternalError:
        message = f"task {id} changed {_LOOKS} times while it was looked at"
        return InternalError(message, hint="try again; report it if it happens again")


# The first libpq that sends several statements in one trip.
_PIPELINES = 140000


class _ChangedError(Exception):
    """What was refused would not be refused any more."""


def _token() -> int:
    """Return a mark that no other change has."""
    return secrets.randbits(63)


def _key(id: str) -> str:
    """Return ``id``, or the empty text, which no task has, for one that PostgreSQL cannot be asked for."""
    return id if "\0" not in id and (id.isascii() or is_utf8(id)) else ""


def _present(now: datetime, until: datetime, waited: float) -> tuple[datetime, datetime]:
    """Return the caller's time and its lease's end, both moved on by a long wait for a connection."""
    if waited < _LONG_WAIT:
        return now, until
    by = timedelta(seconds=waited)
    return now + by, utc(lease_end(until, by))


def _horizon(now: datetime) -> datetime:
    try:
        return now + SKEW
    except OverflowError:
        return now


def _groups(domains: Mapping[str, Label]) -> dict[int, list[str]]:
    """Return the domains by the highest label that may be read in them."""
    groups: dict[int, list[str]] = {}
    for domain, highest in sorted(domains.items()):
        groups.setdefault(int(highest), []).append(domain)
    return groups


def _by_label(groups: Mapping[int, list[str]]) -> dict[str, list[str]]:
    return {f"domains{label}": names for label, names in groups.items()}


def _named(domains: Mapping[str, Label], places: Sequence[Place]) -> dict[str, Any]:
    """Return the values by which a claim says where it claims."""
    if len(places) == 1:
        return {"label": int(domains[places[0].domain])}
    groups = _groups({place.domain: domains[place.domain] for place in places})
    return {"names": [place.domain for place in places], **_by_label(groups)}
