"""The statements of the PostgreSQL ledger. Each change is one, with its event: one round trip, one commit.

Every change holds its domain's advisory lock, shared, until it is committed, and takes it before it
takes a row or a number. Whoever holds that lock alone (``LOCK``) therefore sees every event that has a
number lower than one that it sees, and finds no change half way.

A change also holds a lock of its own, on its ``token``, and leaves the token in the row: whoever lost
the connection waits for the change by that lock, and finds it by that token, or knows it was not made.
"""

# ruff: noqa: S608  (statements are put together from this module's own text; what callers give is bound)
from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, LiteralString, NamedTuple

from psycopg import sql

from amem_core.domain.tasks import TaskStatus
from amem_ledger._rows import COLUMNS, NUMBERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amem_ledger.postgres._schema import Place

_OF_T = ", ".join(f"t.{name}" for name in COLUMNS.split(", "))
_SET = ", ".join(
    f"{name} = excluded.{name}" for name in f"{COLUMNS}, renewed".split(", ") if name not in {"id", "domain"}
)
_SIXTEEN: LiteralString = "%s, " * 15 + "%s"
# How many statements of one shape are kept: a domain has two claims for each limit that is used.
_KEPT = 512

LOCK: LiteralString = "SELECT pg_advisory_xact_lock(%s)"
# A function that is called when it is evaluated: OFFSET 0 keeps the planner from taking the subquery apart.
_TURN = (
    "turn AS MATERIALIZED (SELECT 1 AS held FROM (SELECT pg_advisory_xact_lock_shared({lock}),"
    " pg_advisory_xact_lock(%(token)s::bigint) OFFSET 0) AS locks)"
)
_TURNS = (
    "turn AS MATERIALIZED (SELECT 1 AS held FROM (SELECT count(pg_advisory_xact_lock_shared(lock)),"
    " pg_advisory_xact_lock(%(token)s::bigint) FROM (SELECT lock FROM {ledger}.domain WHERE name = ANY(%(names)s)"
    " ORDER BY lock) AS locks OFFSET 0) AS locks)"
)
# A condition without a column, which is looked at before the first row is.
_HELD = "(SELECT held FROM turn) = 1"
_LATEST = "(SELECT max(renewed) FROM {task})"
_SENT = (
    f"sent AS (INSERT INTO {{outbox}} (kind, actor, {COLUMNS})"
    f" SELECT %(kind)s::text, {{actor}}, {COLUMNS} FROM changed)"
)
_TAKEN = (
    "status = 1, holder = %(holder)s, fence = t.fence + 1, lease_until = %(until)s, renewed = %(now)s,"
    " updated = %(now)s, revision = t.revision + 1, token = %(token)s"
)
_CLAIM_NEXT = f"""
WITH {{turn}},
ready AS MATERIALIZED (
    SELECT id, domain, priority FROM {{task}} WHERE status = 0 AND {{readable}} AND {_HELD}
    ORDER BY priority, id LIMIT {{limit}} FOR UPDATE {{wait}}
),
run_out AS MATERIALIZED (
    SELECT id, domain, priority FROM {{task}}
    WHERE status = 1 AND lease_until <= %(now)s AND {{readable}} AND {_HELD}
    ORDER BY priority, id LIMIT {{limit}} FOR UPDATE {{wait}}
),
picked AS MATERIALIZED (
    SELECT id, domain FROM (SELECT * FROM ready UNION ALL SELECT * FROM run_out) AS free
    ORDER BY priority, id LIMIT {{limit}}
),
changed AS (
    UPDATE {{task}} AS t SET {_TAKEN} FROM picked WHERE t.id = picked.id AND t.domain = picked.domain
    RETURNING {_OF_T}
),
{_SENT}
SELECT {COLUMNS}, latest FROM {{latest}} AS held LEFT JOIN changed ON true
"""
_CHANGE = f"""
WITH {{turn}},
changed AS (
    UPDATE {{task}} AS t SET {{set}} FROM turn WHERE t.id = %(id)s AND {{condition}} RETURNING {_OF_T}
),
{_SENT}
SELECT {COLUMNS}{{more}} FROM changed
"""
_COUNTED = "updated = %(now)s, revision = t.revision + 1, token = %(token)s"
_OF_HOLDER = "t.fence = %(fence)s AND t.status = 1"
_FILE = f"""
WITH {{turn}},
changed AS (
    INSERT INTO {{task}} AS t (id, domain, label, status, priority, origin, upstream_event, fence, created, updated,
        revision, filing, token)
    SELECT %(id)s, %(domain)s, %(label)s, 0, %(priority)s, %(origin)s, %(event)s, 0, %(now)s, %(now)s, 1,
        %(filing)s::bytea, %(token)s FROM turn
    ON CONFLICT DO NOTHING RETURNING {_OF_T}
),
routed AS (INSERT INTO {{ledger}}.route (id, domain) SELECT id, domain FROM changed),
{_SENT}
SELECT {COLUMNS} FROM changed
"""
_REBASE = f"""
WITH {{turn}},
changed AS (
    UPDATE {{task}} AS t SET lease_until = %(now)s + (t.lease_until - t.renewed), renewed = %(now)s, {_COUNTED}
    FROM turn WHERE t.status = 1 AND t.renewed > %(now)s AND {{latest}} > %(horizon)s RETURNING {_OF_T}
),
{_SENT}
SELECT 1 FROM changed
"""
# A commit that does not wait for the disk: what a crash takes of it is in the log, and comes back through `apply`.
_UNHURRIED = "set_config('synchronous_commit', 'off', true) IS NOT NULL"
_RELAYED = f"""
WITH given AS MATERIALIZED (
    SELECT 1 FROM {{ledger}}.domain WHERE name = %(domain)s AND {_UNHURRIED}
    AND %(number)s::bigint <= greatest(relayed, (SELECT max(number) FROM {{outbox}}))
),
gone AS (DELETE FROM {{outbox}} WHERE number <= %(number)s AND EXISTS (SELECT FROM given))
UPDATE {{ledger}}.domain SET relayed = greatest(relayed, %(number)s), watermark = greatest(watermark, %(through)s)
WHERE name = %(domain)s AND EXISTS (SELECT FROM given)
"""
_PASSED = f"""
UPDATE {{ledger}}.domain SET watermark = greatest(watermark, %(through)s)
WHERE name = %(domain)s AND watermark < %(through)s AND {_UNHURRIED}
"""


class Statements(NamedTuple):
    """What is asked of one domain's tables, or of all of them."""

    by_id: bytes
    by_filing: bytes
    by_token: bytes
    file: bytes
    claim: bytes
    renew: bytes
    complete: bytes
    release: bytes
    relabel: bytes
    rebase: bytes
    outgoing: bytes
    relayed: bytes
    passed: bytes
    followed: bytes
    rebuilt: bytes
    held: bytes
    waiting: bytes
    all_held: bytes
    keep: bytes
    sent: bytes
    forget: bytes
    unfile: bytes


class _Text:
    """Statements with the names of one ledger, and of one domain or of all, put in."""

    def __init__(self, ledger: str, place: Place | None) -> None:
        schema = ledger if place is None else place.schema
        self._names: dict[str, sql.Composable] = {
            "ledger": sql.Identifier(ledger),
            "task": sql.Identifier(schema, "task"),
            "outbox": sql.Identifier(schema, "outbox"),
        }
        self._names["turn"] = self._part(_TURNS) if place is None else self._part(_TURN, lock=sql.Literal(place.lock))
        self._names["latest"] = self._part(_LATEST)

    def _part(self, text: LiteralString, **more: sql.Composable) -> sql.Composed:
        return sql.SQL(text).format(**{**self._names, **more})

    def __call__(self, text: LiteralString, **more: LiteralString) -> bytes:
        """Return a statement; what ``more`` puts in may have names in it too."""
        return self._part(text, **{name: self._part(part) for name, part in more.items()}).as_bytes(None)


@lru_cache(maxsize=_KEPT)
def statements(ledger: str, place: Place) -> Statements:
    """Return the statements for one domain."""
    text = _Text(ledger, place)

    def change(set: LiteralString, condition: LiteralString, actor: LiteralString, more: LiteralString = "") -> bytes:  # noqa: A002
        return text(_CHANGE, set=set, condition=condition, actor=actor, more=more)

    given: LiteralString = "%(actor)s::text"
    free: LiteralString = "(t.status = 0 OR (t.status = 1 AND t.lease_until <= %(now)s))"
    ended: LiteralString = "lease_until = NULL, renewed = NULL, handoff = coalesce(%(handoff)s::text, t.handoff)"
    outbox: LiteralString = f"SELECT number, kind, actor, {COLUMNS} FROM {{outbox}}"
    row: LiteralString = f"SELECT {COLUMNS}, token FROM {{task}}"
    watermark: LiteralString = "UPDATE {ledger}.domain SET watermark = {value} WHERE name = %(domain)s"
    return Statements(
        by_id=text(f"{row} WHERE id = %(id)s"),
        by_filing=text(f"{row} WHERE filing = %(filing)s"),
        by_token=text(f"{row} WHERE token = %(token)s AND (id = %(id)s OR (%(id)s::text IS NULL AND status = 1))"),
        file=text(_FILE, actor=given),
        claim=change(_TAKEN, free, given, f", {_LATEST}"),
        renew=change(f"lease_until = %(until)s, renewed = %(now)s, {_COUNTED}", _OF_HOLDER, "holder"),
        complete=change(f"status = 2, {ended}, {_COUNTED}", _OF_HOLDER, given),
        release=change(f"status = 0, holder = NULL, {ended}, {_COUNTED}", _OF_HOLDER, given),
        relabel=change(f"label = %(label)s, {_COUNTED}", "true", given),
        rebase=text(_REBASE, actor=given),
        outgoing=text(f"{outbox} ORDER BY number LIMIT %(limit)s"),
        relayed=text(_RELAYED),
        passed=text(_PASSED),
        followed=text(watermark, value="greatest(watermark, %(through)s)"),
        rebuilt=text(watermark, value="%(through)s"),
        held=text(f"SELECT {COLUMNS}, renewed FROM {{task}} WHERE id = ANY(%(ids)s)"),
        waiting=text(f"{outbox} WHERE id = ANY(%(ids)s) ORDER BY number"),
        all_held=text(f"SELECT {COLUMNS}, renewed FROM {{task}}"),
        keep=text(
            f"INSERT INTO {{task}} ({COLUMNS}, renewed, filing) VALUES ({_SIXTEEN})"
            f" ON CONFLICT (id, domain) DO UPDATE SET {_SET}, filing = excluded.filing, token = NULL"
        ),
        sent=text("DELETE FROM {outbox} WHERE number = ANY(%(numbers)s)"),
        forget=text("DELETE FROM {task} WHERE id = ANY(%(ids)s)"),
        # What is filed under one id may be filed under another now: no two may have it, not for a moment.
        unfile=text("UPDATE {task} SET filing = NULL WHERE id = ANY(%(ids)s) AND filing IS NOT NULL"),
    )


@lru_cache(maxsize=_KEPT)
def claim_next(ledger: str, place: Place, limit: int, *, wait: bool) -> bytes:
    """Return the claim of up to ``limit`` tasks of one domain whose label is at most ``label``.

    Tasks that others hold a lock on are passed over, or waited for. The limit is in the text: the
    plan follows the order of an index only when the planner knows how little is asked for.
    """
    text = _Text(ledger, place)
    return text(
        _CLAIM_NEXT,
        readable="label <= %(label)s",
        limit=_digits(limit),
        wait="" if wait else "SKIP LOCKED",
        latest=f"(SELECT {_LATEST} AS latest)",
        actor="%(holder)s::text",
    )


@lru_cache(maxsize=_KEPT)
def claim_from_many(ledger: str, labels: tuple[int, ...], limit: int, *, wait: bool) -> bytes:
    """Return the claim of up to ``limit`` tasks of several domains: ``domains<label>`` are those of one highest label."""
    return _Text(ledger, None)(
        _CLAIM_NEXT,
        readable=_readable(labels),
        limit=_digits(limit),
        wait="" if wait else "SKIP LOCKED",
        latest="(SELECT max(renewed) AS latest FROM {task} WHERE domain = ANY(%(names)s))",
        actor="%(holder)s::text",
    )


@lru_cache(maxsize=_KEPT)
def tasks(ledger: str, labels: tuple[int, ...], statuses: frozenset[TaskStatus], *, origin: bool, after: bool) -> bytes:
    """Return the listing of tasks by id; ``domains<label>`` are the domains of one highest label."""
    wanted: list[LiteralString] = [_readable(labels)]
    if statuses and statuses != frozenset(NUMBERS):
        shown: dict[TaskStatus, LiteralString] = {
            TaskStatus.ready: "status = 0 OR (status = 1 AND lease_until <= %(now)s)",
            TaskStatus.claimed: "(status = 1 AND lease_until > %(now)s)",
            TaskStatus.completed: "status = 2",
        }
        wanted.append(f"({' OR '.join([text for status, text in shown.items() if status in statuses])})")
    if origin:
        wanted.append("origin = %(origin)s")
    if after:
        wanted.append("id > %(after)s")
    return _Text(ledger, None)(
        f"SELECT {COLUMNS} FROM {{task}} WHERE {' AND '.join(wanted)} ORDER BY id LIMIT %(limit)s"
    )


class Routing(NamedTuple):
    """What is asked of the tables that all domains share."""

    domain_of: bytes
    watermark: bytes
    elsewhere: bytes
    in_domain: bytes
    add: bytes
    remove: bytes


@lru_cache(maxsize=16)
def routing(ledger: str) -> Routing:
    """Return the statements on the shared tables."""
    text = _Text(ledger, None)
    return Routing(
        domain_of=text("SELECT domain FROM {ledger}.route WHERE id = %(id)s"),
        watermark=text("SELECT watermark FROM {ledger}.domain WHERE name = %(domain)s"),
        elsewhere=text(
            f"SELECT {COLUMNS}, renewed FROM {{task}} AS t WHERE domain <> %(domain)s AND (id, domain) IN"
            " (SELECT id, domain FROM {ledger}.route WHERE id = ANY(%(ids)s) AND domain <> %(domain)s) ORDER BY id"
        ),
        in_domain=text("SELECT id FROM {ledger}.route WHERE domain = %(domain)s"),
        add=text("INSERT INTO {ledger}.route (id, domain) SELECT unnest(%(ids)s::text[]), %(domain)s"),
        remove=text("DELETE FROM {ledger}.route WHERE domain = %(domain)s AND id = ANY(%(ids)s)"),
    )


def _readable(labels: Sequence[int]) -> LiteralString:
    parts: list[LiteralString] = [_GROUPS[label] for label in labels]
    return f"({' OR '.join(parts)})"


_GROUPS: tuple[LiteralString, ...] = (
    "(domain = ANY(%(domains0)s) AND label <= 0)",
    "(domain = ANY(%(domains1)s) AND label <= 1)",
    "(domain = ANY(%(domains2)s) AND label <= 2)",
    "(domain = ANY(%(domains3)s) AND label <= 3)",
)


def _digits(limit: int) -> LiteralString:
    digits: dict[str, LiteralString] = {"0": "0", "1": "1", "2": "2", "3": "3", "4": "4"}
    digits |= {"5": "5", "6": "6", "7": "7", "8": "8", "9": "9"}
    return "".join([digits[digit] for digit in str(limit)])
