"""What the how-to grants a user is what amem needs, and all of it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from amem_core.domain.labels import Label
from amem_core.domain.queries import ReadFilter
from amem_core.domain.tasks import NewTask
from amem_core.system import SystemClock

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(minutes=10)


@pytest.fixture
def dsn(lone_dsn):
    """A server of its own: the names of the how-to are those of roles and databases."""
    return lone_dsn


HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "use-postgresql.md"


@pytest.mark.parametrize("way", ["its own database", "a grant", "schemas made for it"])
def test_what_the_how_to_grants_is_all_that_is_needed(make, admin, dsn, way):
    own, grant, schemas = re.findall(r"```sql\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    given = own if way == "its own database" else own.replace(" OWNER amem", "")
    given += {"a grant": grant, "schemas made for it": "GRANT CONNECT ON DATABASE memory TO amem;"}.get(way, "")
    try:
        for statement in given.split(";"):
            admin.execute(statement)
        if way == "schemas made for it":
            with psycopg.connect(psycopg.conninfo.make_conninfo(dsn, dbname="memory")) as connection:
                connection.execute(schemas)
        ledger = make(dsn=psycopg.conninfo.make_conninfo(dsn, dbname="memory", user="amem"), schema="amem")
        ledger.file(NewTask(id="mem-a", domain="my-project", label=Label.internal), actor="owner", now=NOW)
        mine = ReadFilter({"my-project": Label.restricted})
        assert ledger.claim_next(mine, holder="session:a", lease=LEASE, now=NOW)[0].fence == 1
        assert len(ledger.outgoing("my-project")) == 2
        assert ledger.rebuild("my-project", [], through=0) == 1
        states = {check.name: check.state for check in ledger.check(now=SystemClock().now())}
        assert states["ledger: permissions"] == ("warning" if way == "schemas made for it" else "ok")
        ledger.close()
    finally:
        admin.execute("DROP DATABASE IF EXISTS memory WITH (FORCE)")
        admin.execute("DROP ROLE IF EXISTS amem")
