"""What a change costs, in counts: statements, commits, the plan, and what is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from amem_core.domain.labels import Label
from amem_core.domain.queries import ReadFilter
from amem_core.domain.tasks import NewTask, TaskStatus
from amem_ledger import _queries
from amem_ledger._rows import COLUMNS
from amem_ledger.config import SqliteSettings
from amem_ledger.sqlite import open_ledger

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(minutes=10)
ALL = ReadFilter({"d": Label.restricted})
PAGE = 2048


@pytest.fixture
def ledger(tmp_path):
    opened = open_ledger(str(tmp_path), SqliteSettings())
    for number in range(50):
        opened.file(NewTask(id=f"mem-{number:02}", domain="d", label=Label.internal), actor="owner", now=NOW)
    yield opened
    opened.close()


def commits(tmp_path):
    """Count the commit marks in SQLite's write-ahead log."""
    data = (tmp_path / "state" / "ledger.sqlite-wal").read_bytes()
    frames = range(32, len(data), 24 + PAGE)
    return sum(data[at + 4 : at + 8] != bytes(4) for at in frames)


def counted(tmp_path, ledger, call):
    """Return the statements that the call ran, without those of triggers, and its commits."""
    seen = []
    with ledger._database.reading() as connection:
        connection.set_trace_callback(seen.append)
    before = commits(tmp_path)
    call()
    with ledger._database.reading() as connection:
        connection.set_trace_callback(None)
    # SQLite shows a statement again for each of its triggers.
    return [text.split()[0] for text in dict.fromkeys(seen)], commits(tmp_path) - before


def test_each_change_is_one_statement_and_one_commit(tmp_path, ledger):
    new = NewTask(id="mem-x", domain="d", label=Label.internal)
    for word, call in [
        ("INSERT", lambda: ledger.file(new, actor="owner", now=NOW)),
        ("UPDATE", lambda: ledger.claim_next(ALL, holder="session:a", lease=LEASE, now=NOW)),
        ("UPDATE", lambda: ledger.claim_next(ALL, holder="session:a", lease=LEASE, now=NOW, limit=10)),
        ("UPDATE", lambda: ledger.claim("mem-40", holder="session:a", lease=LEASE, now=NOW)),
        ("UPDATE", lambda: ledger.heartbeat("mem-40", fence=1, lease=LEASE, now=NOW)),
        ("UPDATE", lambda: ledger.relabel("mem-40", label=Label.public, actor="owner", now=NOW)),
        ("UPDATE", lambda: ledger.complete("mem-40", fence=1, actor="session:a", handoff=None, now=NOW)),
        ("UPDATE", lambda: ledger.release("mem-00", fence=1, actor="session:a", handoff=None, now=NOW)),
        ("UPDATE", lambda: ledger.relayed("d", number=5, through=5)),
    ]:
        assert counted(tmp_path, ledger, call) == ([word], 1)


def test_reading_commits_nothing(tmp_path, ledger):
    for call in [
        lambda: ledger.get("mem-00", now=NOW),
        lambda: ledger.tasks(ALL, now=NOW),
        lambda: ledger.outgoing("d"),
        lambda: ledger.watermark("d"),
    ]:
        assert counted(tmp_path, ledger, call) == (["SELECT"], 0)


@pytest.mark.parametrize("count", [1, 3, 100])
@pytest.mark.parametrize("limit", [1, 10])
def test_a_claim_uses_the_partial_indexes_and_looks_at_no_completed_row(ledger, count, limit):
    domains = {f"d{number}": Label.internal for number in range(count)}
    sql, values = _queries.claim_next(domains, "2026-01-01T12:00:00.000000Z", limit)
    with ledger._database.reading() as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}", ("", "", "", "", "", *values)).fetchall()
    steps = [row[3] for row in plan]
    touched = [step for step in steps if " task" in step]
    ready = [step for step in touched if "USING COVERING INDEX task_ready (domain=?)" in step]
    held = [step for step in touched if "USING COVERING INDEX task_held (domain=? AND lease_until<?)" in step]
    by_id = [step for step in touched if step == "SEARCH task USING PRIMARY KEY (id=?)"]
    assert (len(ready), len(held), len(by_id)) == (count, count, 1)
    assert len(touched) == 2 * count + 1


@pytest.mark.parametrize(
    "statuses", [(TaskStatus.ready,), (TaskStatus.claimed,), (TaskStatus.ready, TaskStatus.claimed)]
)
def test_a_listing_of_what_is_open_looks_at_no_completed_row(ledger, statuses):
    sql, values = _queries.tasks(
        ALL.domains, "2026-01-01T12:00:00.000000Z", statuses=statuses, origin=None, after=None, limit=10
    )
    with ledger._database.reading() as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    assert not any(step.startswith("SCAN task") or "PRIMARY KEY" in step for step in plan)


def test_completed_rows_are_in_neither_index_of_a_claim(ledger):
    for _ in range(50):
        (task,) = ledger.claim_next(ALL, holder="session:a", lease=LEASE, now=NOW)
        ledger.complete(task.id, fence=1, actor="session:a", handoff=None, now=NOW)
    with ledger._database.reading() as connection:
        for index, condition in [("task_ready", "status = 0"), ("task_held", "status = 1")]:
            query = f"SELECT count(*) FROM task INDEXED BY {index} WHERE {condition}"
            assert connection.execute(query).fetchone() == (0,)


@pytest.mark.parametrize(("synchronous", "value"), [("normal", 1), ("full", 2)])
def test_a_commit_waits_for_the_disk_only_when_asked_to(tmp_path, synchronous, value):
    ledger = open_ledger(str(tmp_path), SqliteSettings(synchronous=synchronous))
    with ledger._database.reading() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (value,)
    ledger.close()


def test_importing_the_ledger_loads_nothing_that_a_search_would_pay_for():
    program = "import sys, json, amem_ledger.sqlite, amem_ledger.plugins.sqlite; print(json.dumps(sorted(sys.modules)))"
    banned = {
        "asyncio", "concurrent.futures", "importlib.metadata", "logging", "pathlib", "pluggy", "pydantic", "random",
        "shutil", "statistics", "subprocess", "tempfile", "urllib", "uuid", "yaml",
    }  # fmt: skip
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    run = subprocess.run([sys.executable, "-S", "-c", program], env=env, capture_output=True, text=True, check=True)
    assert banned.isdisjoint(json.loads(run.stdout))


def test_declaring_the_backend_imports_no_driver():
    program = (
        "import sys\nfrom amem_ledger.plugins.sqlite import amem_backends\n"
        "(spec,) = amem_backends()\nprint(spec.port, spec.name, spec.factory, 'sqlite3' in sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    run = subprocess.run([sys.executable, "-S", "-c", program], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["ledger", "sqlite", "amem_ledger.sqlite:open_ledger", "False"]


def test_the_columns_are_those_of_a_task():
    from amem_core.domain.tasks import Task

    assert COLUMNS.split(", ") == list(Task.__dataclass_fields__)
