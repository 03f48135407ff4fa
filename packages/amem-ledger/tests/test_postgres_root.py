"""A root whose ledger is in PostgreSQL: tasks through the library and the command line, whatever the server does."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from amem_core import Memory
from amem_core.errors import ConflictError, UnavailableError

TABLE = """
format = 1
[ledger]
backend = "postgres"
[ledger.postgres]
dsn = { env = "LEDGER" }
schema = "%s"
"""


@pytest.fixture
def root(tmp_path, schema):
    path = tmp_path / "root"
    Memory.init(str(path), domain="notes")
    (path / "amem.toml").write_text(TABLE % schema)
    return str(path)


@pytest.fixture
def environ(lone_dsn):
    return {**os.environ, "LEDGER": lone_dsn.replace("postgres@", "postgres:s3cret@")}


@pytest.fixture
def amem(root, environ):
    """Runs a command in a process of its own; returns its exit code and what it said."""

    def run(*arguments):
        code = "from amem_launcher.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, "--root", root, *arguments],
            env={**environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "s3cret" not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout + done.stderr

    return run


def test_tasks_go_on_from_process_to_process_and_over_a_restart_of_the_server(amem, root, environ, lone):
    ids = [
        json.loads(amem("task", "create", "--domain", "notes", "--title", name, "--summary", name, "--json")[1])[
            "task"
        ]["id"]
        for name in ("One", "Two")
    ]
    with Memory.open(root, environ=environ) as memory, memory.session(author="session:live") as session:
        (first,) = session.claim_next(lease=600)
        assert first.task.id == ids[0]
        assert amem("task", "claim-next", "--lease", "10m")[1].startswith(f"{ids[1]} 1")
        assert "no task is ready" in amem("task", "claim-next")[1]
        lone.stop()
        with pytest.raises(UnavailableError) as caught:
            session.heartbeat(ids[0], fence=1, lease=600)
        assert f"127.0.0.1:{lone.port}, database postgres" in str(caught.value)
        code, said = amem("task", "complete", ids[1], "--fence", "1")
        assert (code, "cannot be reached" in said, "search, get and write do not" in said) == (1, True, True)
        code, said = amem("doctor")
        assert (code, "ledger answers" in said) == (3, True)
        assert amem("write", "--domain", "notes", "--type", "fact", "--title", "T", "--summary", "zebra")[0] == 0
        assert "zebra" in amem("search", "zebra")[1]
        lone.start()
        assert session.heartbeat(ids[0], fence=1, lease=600).revision == 3
        assert amem("task", "complete", ids[1], "--fence", "1")[0] == 0
        session.release(ids[0], fence=1, note="half of it is done")
        code, said = amem("task", "claim-next", "--json")
        assert [task["task"]["fence"] for task in json.loads(said)["tasks"]] == [2]
        with pytest.raises(ConflictError, match="fence 1 is not the current hold"):
            session.complete(ids[0], fence=1, result="late")
    before = amem("task", "list")
    assert "2 tasks" in amem("reindex")[1]
    assert amem("task", "list") == before
    code, said = amem("doctor")
    assert code == 0, said
    assert "ledger: clock" in said


def test_a_ledger_that_was_lost_comes_back_from_the_log(amem, root, environ, lone_dsn, schema):
    import psycopg

    for name in ("One", "Two"):
        amem("task", "create", "--domain", "notes", "--title", name, "--summary", name)
    assert amem("task", "claim-next")[0] == 0
    before = amem("task", "list")
    with psycopg.connect(lone_dsn, autocommit=True) as connection:
        for name in (f"{schema}_notes", schema):
            connection.execute(psycopg.sql.SQL("DROP SCHEMA {} CASCADE").format(psycopg.sql.Identifier(name)))
    assert amem("task", "list") == before
