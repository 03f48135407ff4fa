"""Services: started by themselves, one for a session, gone at its end, and named where they are not there."""

from __future__ import annotations

import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from amem_conformance import services
from amem_conformance.services import base
from amem_conformance.services.base import Server, private_of, shared_of
from amem_conformance.services.lending import requires
from amem_core.errors import ConfigError, UnavailableError

# Test directories are no packages: the module is run by its path.
STAND_INS = runpy.run_path(str(Path(__file__).with_name("stand_in_service.py")))
Echo = STAND_INS["Echo"]
Broken = STAND_INS["Broken"]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def own_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A session of its own, in a directory of its own, for tests that run beside others."""
    monkeypatch.setenv("PYTEST_XDIST_TESTRUNUID", tmp_path.name)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def lives(pid: int | str | None) -> bool:
    return pid is not None and base._lives(int(pid))


def test_a_private_server_is_started_stopped_and_started_again_on_its_port() -> None:
    with private_of(Echo()) as server:
        port, pid = server.port, server.pid
        assert Echo().answers(port)
        server.stop()
        assert (server.pid, Echo().answers(port), lives(pid)) == (None, False, False)
        server.start()
        assert server.port == port
        assert Echo().answers(port)
        server.stop(signal.SIGKILL)
        assert not Echo().answers(port)
        server.start()
        last = server.pid
    assert not lives(last)
    assert not server.directory.exists()


def test_a_server_that_does_not_come_up_is_told_with_the_end_of_its_log() -> None:
    with pytest.raises(UnavailableError, match="no such thing as luck") as caught, private_of(Broken()):
        pass
    assert "AMEM_STAND_IN" in caught.value.hint


def test_a_service_that_the_environment_names_is_lent_and_never_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMEM_STAND_IN", "elsewhere:1")
    with shared_of(Broken()) as address:
        assert address == {"endpoint": "elsewhere:1"}


def _borrow(number: int, ready: object, done: object, answers: object) -> None:
    with shared_of(Echo()) as address:
        answers.put(json.dumps([number, address["endpoint"], address["pid"]]))
        ready.wait()
        done.wait()


def test_all_processes_of_a_session_share_one_server_and_the_last_one_stops_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    ready, done, answers = context.Barrier(4), context.Event(), context.SimpleQueue()
    processes = [context.Process(target=_borrow, args=(number, ready, done, answers)) for number in range(3)]
    for process in processes:
        process.start()
    ready.wait(30)
    found = [json.loads(answers.get()) for _ in processes]
    assert len({(endpoint, pid) for _, endpoint, pid in found}) == 1
    assert lives(found[0][2])
    done.set()
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    assert not lives(found[0][2])
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_what_a_killed_session_left_behind_is_stopped_by_the_next(tmp_path: Path) -> None:
    code = (
        "import os, runpy, sys, tempfile; tempfile.tempdir = sys.argv[2]; Echo = runpy.run_path(sys.argv[1])['Echo'];"
        " from amem_conformance.services.base import shared_of; lent = shared_of(Echo());"
        " print(lent.__enter__()['pid'], flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).with_name("stand_in_service.py")), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_XDIST_TESTRUNUID": "killed"},
        capture_output=True,
        text=True,
        check=False,
    )
    left = int(done.stdout)
    assert done.returncode == -signal.SIGKILL
    assert lives(left)
    with shared_of(Echo()):
        assert not lives(left)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_an_unknown_service_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError) as caught:
        services.find_service("oracle")
    assert "postgres" in caught.value.hint


def test_every_service_loads_and_has_a_name_and_a_variable() -> None:
    for name in services.SERVICES:
        service = services.find_service(name)
        assert (service.name, service.variable.startswith("AMEM_")) == (name, True)


@pytest.mark.parametrize(
    ("asked", "required"), [("none", False), ("all", True), ("postgres", True), ("s3,postgres", True), ("s3", False)]
)
def test_a_requirement_names_services_backends_or_all(asked: str, required: bool) -> None:
    assert requires(asked, "ledger.postgres", "postgres") is required


@pytest.mark.parametrize(
    ("required", "code"),
    [("s3,postgres", 1), ("ledger.postgres", 1), ("s3", 0)],
)
def test_a_backend_whose_service_is_not_there_is_unavailable_and_fails_where_it_is_required(
    amem_conformance: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, required: str, code: int
) -> None:
    monkeypatch.setenv("AMEM_PG_BIN", str(tmp_path))
    monkeypatch.delenv("AMEM_PG_DSN", raising=False)
    done = amem_conformance("ledger.postgres", f"--amem-require={required}", "--amem-only=ledger:file:new")
    assert done.returncode == code, done.stdout + done.stderr
    assert "unavailable: ledger.postgres: no PostgreSQL server is installed here" in done.stdout
    assert "amem: unavailable" in done.stdout


def test_the_environment_can_require_what_no_option_does(
    amem_conformance: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(
        "import pytest\nfrom amem_conformance.services.lending import lent\n\n\n"
        "@pytest.fixture\ndef dsn(request):\n    with lent(request.config, 'postgres') as address:\n"
        "        yield address['dsn']\n\n\ndef test_it(dsn):\n    assert dsn\n"
    )
    monkeypatch.setenv("AMEM_PG_BIN", str(tmp_path))
    monkeypatch.delenv("AMEM_PG_DSN", raising=False)

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(test)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "200"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    monkeypatch.delenv("AMEM_REQUIRE", raising=False)
    lenient = run()
    assert (lenient.returncode, "unavailable: postgres: no PostgreSQL" in lenient.stdout) == (0, True)
    monkeypatch.setenv("AMEM_REQUIRE", "postgres")
    assert run().returncode == 1


def test_a_servers_state_is_read_by_whoever_stops_it(tmp_path: Path) -> None:
    with private_of(Echo()) as server:
        other = Server(Echo(), server.directory)
        assert (other.pid, other.port) == (server.pid, server.port)
        other.stop()
        assert server.pid is None
