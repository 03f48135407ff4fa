"""The tables of the SQLite ledger, as the steps that made them.

``PRAGMA user_version`` counts the steps that a file has taken. A step that was released is never
edited: a change is a new step behind it.

Status is 0 for ready, 1 for claimed, 2 for completed. Times are text, RFC 3339 in UTC with
microseconds and ``Z``, so that their order as text is their order in time. ``renewed`` is when the
lease last began. ``kind`` is the transition that made the row; NULL when it came from the log, so
that what comes from the log is not sent there again.
"""

from __future__ import annotations

import sqlite3

from amem_core.errors import UnknownFormatError

_FIRST = (
    """
    CREATE TABLE task (
        id TEXT NOT NULL PRIMARY KEY,
        domain TEXT NOT NULL,
        label INTEGER NOT NULL,
        status INTEGER NOT NULL,
        priority INTEGER NOT NULL,
        origin TEXT,
        upstream_event TEXT,
        holder TEXT,
        fence INTEGER NOT NULL,
        lease_until TEXT,
        handoff TEXT,
        created TEXT NOT NULL,
        updated TEXT NOT NULL,
        revision INTEGER NOT NULL,
        renewed TEXT,
        kind TEXT,
        actor TEXT
    ) WITHOUT ROWID
    """,
    # Partial, so that a claim costs the same with a million completed rows; label and status, so that it need not leave
    # the index.
    "CREATE INDEX task_ready ON task (domain, priority, id, label, status) WHERE status = 0",
    "CREATE INDEX task_held ON task (domain, lease_until, priority, label, status) WHERE status = 1",
    """
    CREATE UNIQUE INDEX task_filing ON task (domain, origin, upstream_event)
        WHERE origin IS NOT NULL AND upstream_event IS NOT NULL
    """,
    "CREATE INDEX task_origin ON task (origin) WHERE origin IS NOT NULL",
    # number: the last one given to an outgoing event; it never goes back, so that a late `relayed` takes nothing else.
    # renewed: the latest time at which a lease began, which shows a clock that jumped back at no cost.
    """
    CREATE TABLE domain (
        name TEXT NOT NULL PRIMARY KEY,
        number INTEGER NOT NULL DEFAULT 0,
        relayed INTEGER NOT NULL DEFAULT 0,
        watermark INTEGER NOT NULL DEFAULT 0,
        renewed TEXT NOT NULL DEFAULT ''
    ) WITHOUT ROWID
    """,
    # The task as the event left it: the event is made from that when it is asked for.
    """
    CREATE TABLE outbox (
        domain TEXT NOT NULL,
        number INTEGER NOT NULL,
        kind TEXT NOT NULL,
        actor TEXT NOT NULL,
        id TEXT NOT NULL,
        label INTEGER NOT NULL,
        status INTEGER NOT NULL,
        priority INTEGER NOT NULL,
        origin TEXT,
        upstream_event TEXT,
        holder TEXT,
        fence INTEGER NOT NULL,
        lease_until TEXT,
        handoff TEXT,
        created TEXT NOT NULL,
        updated TEXT NOT NULL,
        revision INTEGER NOT NULL,
        PRIMARY KEY (domain, number)
    ) WITHOUT ROWID
    """,
    # Triggers, so that a change and its event are one statement and one commit.
    """
    CREATE TRIGGER task_filed AFTER INSERT ON task WHEN new.kind IS NOT NULL BEGIN
        INSERT INTO domain (name, number) VALUES (new.domain, 1) ON CONFLICT (name) DO UPDATE SET number = number + 1;
        INSERT INTO outbox
            SELECT new.domain, number, new.kind, new.actor, new.id, new.label, new.status, new.priority, new.origin,
                new.upstream_event, new.holder, new.fence, new.lease_until, new.handoff, new.created, new.updated,
                new.revision
            FROM domain WHERE name = new.domain;
    END
    """,
    """
    CREATE TRIGGER task_changed AFTER UPDATE OF revision ON task WHEN new.kind IS NOT NULL BEGIN
        UPDATE domain SET number = number + 1, renewed = max(renewed, coalesce(new.renewed, ''))
            WHERE name = new.domain;
        INSERT INTO outbox
            SELECT new.domain, number, new.kind, new.actor, new.id, new.label, new.status, new.priority, new.origin,
                new.upstream_event, new.holder, new.fence, new.lease_until, new.handoff, new.created, new.updated,
                new.revision
            FROM domain WHERE name = new.domain;
    END
    """,
    """
    CREATE TRIGGER domain_relayed AFTER UPDATE OF relayed ON domain BEGIN
        DELETE FROM outbox WHERE domain = new.name AND number <= new.relayed;
    END
    """,
)

STEPS: tuple[tuple[str, ...], ...] = (_FIRST,)
VERSION = len(STEPS)


def version(connection: sqlite3.Connection) -> int:
    """Return how many steps the file has taken; 0 for a new one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refuse_newer(found: int, path: str) -> None:
    """Leave a newer amem's file as it is.

    Raises:
        UnknownFormatError: ``found`` is above what this version knows.
    """
    if found > VERSION:
        message = f"{path} has ledger format {found}; this amem knows formats up to {VERSION}"
        raise UnknownFormatError(message, hint="upgrade amem; the file is left as it is")


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Take the steps that are missing, all or none. The caller is the only writer.

    Raises:
        UnknownFormatError: the file was written by a newer amem.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = version(connection)
        refuse_newer(found, path)
        for step in STEPS[found:]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
