"""The tables of the PostgreSQL ledger, as the steps that made them.

The schema of the ledger (``amem``, say) holds what routes: which domains there are, which domain a
task is of, and two partitioned tables. Each domain has a schema of its own (``amem_notes``) with its
partitions, so that a domain is granted, dumped and dropped by itself, and a step that alters a
partitioned table alters every domain's.

Table ``step`` counts the steps that the database has taken. A step that was released is never edited:
a change is a new step behind it. Steps are taken under an advisory lock, all that are missing or none.

Status is 0 for ready, 1 for claimed, 2 for completed. ``renewed`` is when the lease last began.
``token`` is the mark that the last change of the row left, by which whoever made it finds it again.
Texts sort by code point (collation "C"), whatever the database's own collation is.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, LiteralString, NamedTuple

from psycopg import errors, sql

from amem_core.errors import ConfigError, UnavailableError, UnknownFormatError

if TYPE_CHECKING:
    from psycopg import Connection

    from amem_ledger.postgres._errors import Address

_LONGEST_NAME = 63
_PLAIN = re.compile(r"[a-z0-9_-]+")
_TASK = """
    id text COLLATE "C" NOT NULL,
    domain text COLLATE "C" NOT NULL,
    label smallint NOT NULL,
    status smallint NOT NULL,
    priority bigint NOT NULL,
    origin text COLLATE "C",
    upstream_event text COLLATE "C",
    holder text COLLATE "C",
    fence bigint NOT NULL,
    lease_until timestamptz,
    handoff text COLLATE "C",
    created timestamptz NOT NULL,
    updated timestamptz NOT NULL,
    revision bigint NOT NULL
"""
_FIRST: tuple[LiteralString, ...] = (
    # lock: the key of the domain's advisory lock. relayed: the highest number that is known to be in the log.
    """
    CREATE TABLE {ledger}.domain (
        name text COLLATE "C" PRIMARY KEY,
        schema text COLLATE "C" NOT NULL UNIQUE,
        lock bigint NOT NULL,
        relayed bigint NOT NULL DEFAULT 0,
        watermark bigint NOT NULL DEFAULT 0
    )
    """,
    # Ids are unique across domains, which no index on a partitioned table can say.
    'CREATE TABLE {ledger}.route (id text COLLATE "C" PRIMARY KEY, domain text COLLATE "C" NOT NULL)',
    "CREATE INDEX route_domain ON {ledger}.route (domain)",
    # One at a time, so that of two events the later one of a task has the higher number.
    "CREATE SEQUENCE {ledger}.number CACHE 1",
    f"""
    CREATE TABLE {{ledger}}.task (
        {_TASK},
        renewed timestamptz,
        filing bytea,
        token bigint,
        PRIMARY KEY (id, domain),
        UNIQUE (filing, domain)
    ) PARTITION BY LIST (domain)
    """,
    # Partial, so that a claim costs the same with a million completed rows; label, so that it need not leave the index.
    "CREATE INDEX task_ready ON {ledger}.task (priority, id, label) WHERE status = 0",
    # Not WHERE status = 1: while it is small, the planner would take it for what is asked by id as well.
    "CREATE INDEX task_held ON {ledger}.task (lease_until) WHERE lease_until IS NOT NULL",
    # The latest of them shows a clock that jumped back, in one look.
    "CREATE INDEX task_renewed ON {ledger}.task (renewed) WHERE renewed IS NOT NULL",
    "CREATE INDEX task_origin ON {ledger}.task (origin) WHERE origin IS NOT NULL",
    # The task as the event left it: the event is made from that when it is asked for.
    f"""
    CREATE TABLE {{ledger}}.outbox (
        number bigint NOT NULL DEFAULT nextval({{number}}::regclass),
        kind text COLLATE "C" NOT NULL,
        actor text COLLATE "C" NOT NULL,
        {_TASK},
        PRIMARY KEY (number, domain)
    ) PARTITION BY LIST (domain)
    """,
)
STEPS: tuple[tuple[LiteralString, ...], ...] = (_FIRST,)
VERSION = len(STEPS)

# Rows change often: room for the next version beside each, and a vacuum before the indexes are full of dead ones.
_TUNED = "fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1"


class Place(NamedTuple):
    """Where a domain is kept: its schema, and the key of its advisory lock."""

    domain: str
    schema: str
    lock: int


def place_of(ledger: str, domain: str) -> Place:
    """Return where ``domain`` is, or will be, in the ledger of that schema."""
    digest = sha256(f"{ledger}\0{domain}".encode()).digest()
    name = f"{ledger}_{domain}"
    if len(name) > _LONGEST_NAME or not _PLAIN.fullmatch(domain):
        # No domain has a tilde, so that no other's schema is called the same.
        shortened = "".join(letter for letter in domain if _PLAIN.fullmatch(letter))[:12]
        name = f"{ledger}_{shortened}~{digest.hex()[:24]}"
    return Place(domain, name, lock_of(digest))


def lock_of(digest: bytes) -> int:
    """Return the key of an advisory lock from the first bytes of a digest."""
    return int.from_bytes(digest[:8], signed=True)


def version(connection: Connection, ledger: str) -> int:
    """Return how many steps the database has taken; 0 for a new one."""
    query = sql.SQL("SELECT coalesce(max(number), 0) FROM {}").format(sql.Identifier(ledger, "step"))
    try:
        row = connection.execute(query).fetchone()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return 0
    return 0 if row is None else int(row[0])


def prepare(connection: Connection, ledger: str, address: Address) -> None:
    """Take the steps that are missing.

    Raises:
        UnknownFormatError: a newer amem made the tables.
        ConfigError: the database is not in UTF-8.
    """
    found = version(connection, ledger)
    _refuse_newer(found, ledger, address)
    if found == VERSION:
        return
    _refuse_encoding(connection, address)
    with connection.transaction():
        key = lock_of(sha256(f"{ledger}\0".encode()).digest())
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (key,))
        _make_schema(connection, ledger)
        names = {"ledger": sql.Identifier(ledger), "number": sql.Literal(f"{ledger}.number")}
        connection.execute(
            sql.SQL(
                "CREATE TABLE IF NOT EXISTS {ledger}.step"
                " (number integer PRIMARY KEY, taken timestamptz NOT NULL DEFAULT now())"
            ).format(**names)
        )
        # Another may have taken them while this one waited for the lock.
        found = version(connection, ledger)
        _refuse_newer(found, ledger, address)
        for number, step in enumerate(STEPS[found:], found + 1):
            for statement in step:
                connection.execute(sql.SQL(statement).format(**names))
            connection.execute(sql.SQL("INSERT INTO {ledger}.step (number) VALUES (%s)").format(**names), (number,))


def find(connection: Connection, ledger: str, names: list[str] | None = None) -> list[Place]:
    """Return where the domains of ``names`` are, or all domains; those that have nothing yet are left out."""
    query = sql.SQL("SELECT name, schema, lock FROM {} WHERE %(all)s OR name = ANY(%(names)s) ORDER BY name").format(
        sql.Identifier(ledger, "domain")
    )
    rows = connection.execute(query, {"all": names is None, "names": names or []}).fetchall()
    return [Place(*row) for row in rows]


def make(connection: Connection, ledger: str, place: Place) -> None:
    """Make what a domain needs, unless it is there."""
    names = {
        "ledger": sql.Identifier(ledger),
        "own": sql.Identifier(place.schema),
        "domain": sql.Literal(place.domain),
        "tuned": sql.SQL(_TUNED),
    }
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (place.lock,))
        _make_schema(connection, place.schema)
        for table in ("task", "outbox"):
            name = f'"{place.schema}".{table}'
            if _one(connection, "SELECT to_regclass(%s) IS NOT NULL", name):
                continue
            names["table"] = sql.Identifier(table)
            # Attached rather than made as a partition: nobody who claims in another domain waits for it.
            for statement in (
                "CREATE TABLE {own}.{table} (LIKE {ledger}.{table} INCLUDING ALL) WITH ({tuned})",
                "ALTER TABLE {ledger}.{table} ATTACH PARTITION {own}.{table} FOR VALUES IN ({domain})",
            ):
                connection.execute(sql.SQL(statement).format(**names))
        connection.execute(
            sql.SQL(
                "INSERT INTO {ledger}.domain (name, schema, lock) VALUES (%s, %s, %s) ON CONFLICT (name) DO NOTHING"
            ).format(**names),
            place,
        )


def _make_schema(connection: Connection, name: str) -> None:
    # Asked first: an administrator may have made it for a user who may make none.
    if not _one(connection, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s)", name):
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(name)))


def _one(connection: Connection, query: LiteralString, *values: object) -> object:
    row = connection.execute(query, values).fetchone()
    return None if row is None else row[0]


def _refuse_newer(found: int, ledger: str, address: Address) -> None:
    if found > VERSION:
        message = f"{address.text}, schema {ledger}, has ledger format {found}; this amem knows formats up to {VERSION}"
        raise UnknownFormatError(message, hint="upgrade amem; the database is left as it is")


def _refuse_encoding(connection: Connection, address: Address) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        message = f"{address.text} is encoded in {encoding}; a ledger keeps any text, which takes UTF8"
        raise ConfigError(
            message, hint="CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0, and let dsn name that one"
        )


def check_pipelines(supported: bool, address: Address) -> None:  # noqa: FBT001  (what libpq answers)
    """Refuse a libpq that cannot send several statements at once.

    Raises:
        UnavailableError: it is older than 14.
    """
    if not supported:
        message = f"{address.text} is reached through a libpq older than 14"
        raise UnavailableError(message, hint="python -m pip install 'amem[postgres]', which brings a newer one")
