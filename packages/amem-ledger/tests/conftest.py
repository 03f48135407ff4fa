"""A PostgreSQL to test against, borrowed for the session or alone, and ledgers on it with tables of their own."""

from __future__ import annotations

import itertools
import secrets
import threading
from contextlib import contextmanager

import pytest

from amem_conformance.services.lending import lent, lent_alone

_counts = itertools.count(1)


@pytest.fixture(scope="session")
def dsn(request):
    """The session's server, as the user that may do everything."""
    with lent(request.config, "postgres") as address:
        yield address["dsn"]


@pytest.fixture(scope="module")
def lone(request):
    """A server that nobody else uses, to stop and to start again."""
    with lent_alone(request.config, "postgres") as server:
        yield server


@pytest.fixture
def lone_dsn(lone):
    """The lone server's dsn; whatever a test did to it, it runs."""
    yield lone.address["dsn"]
    if lone.pid is None:
        lone.start()


@pytest.fixture
def schema():
    """A name that no other test's tables have."""
    return f"x{secrets.token_hex(4)}n{next(_counts)}"


@pytest.fixture
def admin(dsn):
    """A connection behind the ledger's back."""
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def make(dsn, schema, admin):
    """Opens a ledger on the test's own tables, each time it is called; the tables are dropped at the end."""
    from psycopg import sql

    from amem_ledger.config import PostgresSettings
    from amem_ledger.postgres.ledger import open_ledger

    opened = []

    def make(**settings):
        opened.append(open_ledger("", PostgresSettings(**{"dsn": dsn, "schema": schema, **settings})))
        return opened[-1]

    yield make
    for ledger in opened:
        ledger.close()
    found = admin.execute("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)", (schema,)).fetchall()
    for (name,) in found:
        admin.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


@pytest.fixture
def ledger(make):
    """A ledger on the test's own tables."""
    return make()


@pytest.fixture
def killing(admin):
    """Ends every connection of ledgers, again and again, while the context lasts; yields the list of those ended."""

    @contextmanager
    def killing(application, seconds=0.05):
        killed = []
        enough = threading.Event()

        def kill():
            # Chosen first: a condition in the same WHERE may be looked at last.
            query = (
                "WITH chosen AS MATERIALIZED (SELECT pid FROM pg_stat_activity WHERE application_name = %s"
                " AND random() < 0.2) SELECT pg_terminate_backend(pid) FROM chosen"
            )
            while not enough.wait(seconds):
                killed.extend(admin.execute(query, (application,)).fetchall())

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            yield killed
        finally:
            enough.set()
            thread.join()

    return killing
