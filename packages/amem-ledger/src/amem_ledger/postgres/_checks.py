"""What ``amem doctor`` asks of the server: does it answer, which version, what may this user do, what time is it there."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from psycopg import sql

from amem_core.domain.results import Check
from amem_core.domain.task_events import SKEW, utc
from amem_ledger.postgres import _schema as schema
from amem_ledger.postgres._rows import utc_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from psycopg import Connection

    from amem_ledger.postgres._errors import Address

_OLDEST = 130000
_NEAR = timedelta(seconds=1)
_SLOW = 0.05


def check(connection: Connection, ledger: str, address: Address, *, now: datetime, began: float) -> list[Check]:
    """Return what was found; ``now`` was this machine's time when ``time.monotonic`` said ``began``."""
    return [
        _answers(connection, address),
        _clock(connection, utc(now), began),
        _version(connection),
        _tables(connection, ledger),
        *_rights(connection, ledger),
    ]


def _answers(connection: Connection, address: Address) -> Check:
    connection.execute("SELECT 1")
    began = time.monotonic()
    connection.execute("SELECT 1")
    took = time.monotonic() - began
    detail = f"{address.text}: a round trip takes {1000 * took:.1f} ms"
    if took > _SLOW:
        remedy = "a claim is one trip, a handed over task some ten: run amem nearer to the server"
        return Check(name="ledger: answers", state="warning", detail=detail, remedy=remedy)
    return Check(name="ledger: answers", state="ok", detail=detail)


def _clock(connection: Connection, now: datetime, began: float) -> Check:
    sent = time.monotonic()
    row = connection.execute("SELECT clock_timestamp()").fetchone()
    middle = (sent + time.monotonic()) / 2
    theirs = utc_of(row[0]) if row is not None else now
    ahead = now + timedelta(seconds=middle - began) - theirs
    name = "ledger: clock"
    detail = f"this machine's clock is {abs(ahead.total_seconds()):.3f} s {'ahead of' if ahead > timedelta(0) else 'behind'} the server's"
    remedy = "let NTP set both: leases end by the clock of whoever looks at them"
    if abs(ahead) > SKEW:
        return Check(name=name, state="alarm", detail=detail, remedy=remedy)
    return Check(
        name=name,
        state="warning" if abs(ahead) > _NEAR else "ok",
        detail=detail,
        remedy=remedy if abs(ahead) > _NEAR else "",
    )


def _version(connection: Connection) -> Check:
    found = connection.info.server_version
    detail = f"PostgreSQL {found // 10000}.{found % 10000}"
    if found < _OLDEST:
        remedy = f"upgrade the server: {_OLDEST // 10000} is the oldest that is known to work"
        return Check(name="ledger: version", state="alarm", detail=detail, remedy=remedy)
    return Check(name="ledger: version", state="ok", detail=detail)


def _tables(connection: Connection, ledger: str) -> Check:
    found = schema.version(connection, ledger)
    domains = schema.find(connection, ledger)
    detail = f"schema {ledger}: format {found} of {schema.VERSION}, {len(domains)} domains"
    missing = [place.schema for place in domains if not _has_tables(connection, place.schema)]
    if missing:
        detail += f"; no tables in {', '.join(missing)}"
        return Check(
            name="ledger: tables", state="alarm", detail=detail, remedy="amem reindex makes them again, from the log"
        )
    return Check(name="ledger: tables", state="ok", detail=detail)


def _has_tables(connection: Connection, name: str) -> bool:
    row = connection.execute(
        "SELECT to_regclass(%s) IS NOT NULL AND to_regclass(%s) IS NOT NULL", (f'"{name}".task', f'"{name}".outbox')
    ).fetchone()
    return row is not None and bool(row[0])


def _rights(connection: Connection, ledger: str) -> Iterator[Check]:
    row = connection.execute(
        "SELECT current_user, current_database(), has_database_privilege(current_database(), 'CREATE'),"
        " has_schema_privilege(%s, 'CREATE'), pg_is_in_recovery(), (SELECT rolsuper FROM pg_roles"
        " WHERE rolname = current_user)",
        (ledger,),
    ).fetchone()
    if row is None:
        return
    user, database, may_make_schemas, may_make_tables, standby, superuser = row
    name = "ledger: permissions"
    if standby:
        yield Check(
            name=name, state="alarm", detail="the server is a read-only standby", remedy="let dsn reach the primary"
        )
    elif not may_make_tables:
        grant = sql.SQL("GRANT ALL ON SCHEMA {} TO {}").format(sql.Identifier(ledger), sql.Identifier(user))
        yield Check(
            name=name, state="alarm", detail=f"{user} may make no tables in {ledger}", remedy=grant.as_string(None)
        )
    elif not may_make_schemas:
        grant = sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(sql.Identifier(database), sql.Identifier(user))
        detail = f"{user} may make no schemas: a new domain needs one that an administrator makes"
        yield Check(name=name, state="warning", detail=detail, remedy=grant.as_string(None))
    elif superuser:
        detail = f"{user} is a superuser: amem needs none"
        yield Check(name=name, state="warning", detail=detail, remedy="give dsn a user of its own; see the how-to")
    else:
        yield Check(name=name, state="ok", detail=f"{user} may do what amem needs")
