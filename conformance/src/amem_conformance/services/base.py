"""What all services have in common: a directory, a free port, a start that waits, a stop by process id.

A shared server is found through a directory that all processes of one test session know. Each that
uses it leaves its process id there; the last one to go stops the server. What a session that was
killed left behind is stopped by the next one that starts.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from amem_core.errors import UnavailableError

_LOG_LINES = 15
_STEP = 0.05
_PREFIX = "amem-services-"
# Set by pytest-xdist for all workers of one run.
_XDIST = "PYTEST_XDIST_TESTRUNUID"


class Service(ABC):
    """How one service is run. Subclasses say what is theirs; ``Server`` does the rest."""

    name: ClassVar[str]
    variable: ClassVar[str]
    """The environment variable that says where one runs already."""
    seconds: ClassVar[float] = 60.0
    """How long a start may take."""
    stops: ClassVar[signal.Signals] = signal.SIGTERM
    """The signal on which it stops in order."""

    @abstractmethod
    def given(self, value: str) -> Mapping[str, str]:
        """Return the address that ``variable`` holds."""

    @abstractmethod
    def prepare(self, directory: Path) -> None:
        """Make what the first start needs, in ``directory``.

        Raises:
            UnavailableError: the service is not installed here, or refuses.
        """

    @abstractmethod
    def command(self, directory: Path, port: int) -> Sequence[str]:
        """Return the program that serves on ``port`` of loopback, in the foreground."""

    @abstractmethod
    def answers(self, port: int) -> bool:
        """Return whether it serves now, not merely listens."""

    @abstractmethod
    def address(self, port: int) -> Mapping[str, str]:
        """Return where it is, as a backend's harness needs it."""


class _Child(subprocess.Popen[bytes]):
    """A process that others may stop, or that may outlive this one: neither is a child that was forgotten."""

    def __del__(self) -> None:
        """Warn of nothing."""


class Server:
    """One server and its directory. The process that stops it need not be the one that started it."""

    def __init__(self, service: Service, directory: Path) -> None:
        self.service = service
        self.directory = directory
        self._state = directory / "state.json"
        self._child: _Child | None = None

    @property
    def port(self) -> int:
        """The port on loopback; the same after each start."""
        return int(self._read()["port"])

    @property
    def pid(self) -> int | None:
        """The process id of the server, None while it does not run."""
        pid = self._read().get("pid")
        return pid if isinstance(pid, int) and _lives(pid) else None

    @property
    def address(self) -> Mapping[str, str]:
        """Where it is."""
        return self.service.address(self.port)

    def log_tail(self) -> str:
        """Return the last lines that it wrote."""
        with suppress(OSError):
            lines = (self.directory / "log").read_text(encoding="utf-8", errors="replace").splitlines()
            return "\n".join(lines[-_LOG_LINES:])
        return ""

    def start(self) -> None:
        """Start it and wait until it serves.

        Raises:
            UnavailableError: it is not installed here, or does not come up: the message has the end of its log.
        """
        if not self._state.exists():
            self.service.prepare(self.directory)
            self._write({"port": _free_port()})
        port = self.port
        with (self.directory / "log").open("ab") as log:
            self._child = _Child(
                self.service.command(self.directory, port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                # A Ctrl-C at the terminal is for the tests, which then stop it.
                start_new_session=True,
            )
        self._write({"port": port, "pid": self._child.pid})
        deadline = time.monotonic() + self.service.seconds
        while not self.service.answers(port):
            if self._child.poll() is not None or time.monotonic() > deadline:
                self.stop(signal.SIGKILL)
                message = f"{self.service.name} did not start on 127.0.0.1:{port}; its log ends:\n{self.log_tail()}"
                raise UnavailableError(message, hint=f"mend that, or set {self.service.variable} to one that runs")
            time.sleep(_STEP)

    def stop(self, sign: signal.Signals | None = None) -> None:
        """Send it the signal on which it stops in order, or ``sign``, and wait until it is gone."""
        pid = self.pid
        if pid is None:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, sign or self.service.stops)
        deadline = time.monotonic() + self.service.seconds
        while self._runs(pid):
            if time.monotonic() > deadline:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_STEP)
        self._write({"port": self.port})

    def remove(self) -> None:
        """Stop it and delete its directory."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _runs(self, pid: int) -> bool:
        if self._child is not None and self._child.pid == pid:
            return self._child.poll() is None
        return _lives(pid)

    def _read(self) -> dict[str, int]:
        with suppress(FileNotFoundError):
            state: dict[str, int] = json.loads(self._state.read_text())
            return state
        return {}

    def _write(self, state: dict[str, int]) -> None:
        self._state.write_text(json.dumps(state))


@contextmanager
def private_of(service: Service) -> Generator[Server]:
    """Run a server for one caller."""
    server = Server(service, _directory(f"amem-{service.name}-"))
    try:
        server.start()
        yield server
    finally:
        server.remove()


@contextmanager
def shared_of(service: Service) -> Generator[Mapping[str, str]]:
    """Run one server for all processes of this test session, or lend the one that the environment names."""
    given = os.environ.get(service.variable)
    if given:
        yield service.given(given)
        return
    session = Path(tempfile.gettempdir()) / f"{_PREFIX}{os.getuid()}-{os.environ.get(_XDIST) or os.getpid()}"
    server = Server(service, session / service.name)
    users = session / f"{service.name}.users"
    mine = users / str(os.getpid())
    with _turn():
        _sweep(service)
        users.mkdir(mode=0o711, parents=True, exist_ok=True)
        session.chmod(0o711)
        if server.pid is None:
            server.directory.mkdir(mode=0o711, exist_ok=True)
            server.start()
        mine.touch()
    try:
        yield server.address
    finally:
        with _turn():
            mine.unlink(missing_ok=True)
            _end_unused(server, users)


@contextmanager
def _turn() -> Generator[None]:
    """Let one process at a time start and stop servers."""
    path = Path(tempfile.gettempdir()) / f"{_PREFIX}{os.getuid()}.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _end_unused(server: Server, users: Path) -> None:
    """Stop the server, and forget it, when nobody who lives uses it."""
    for user in users.iterdir():
        if _lives(int(user.name)):
            return
        user.unlink()
    server.remove()
    users.rmdir()
    # Another service of the session may be in use.
    with suppress(OSError):
        users.parent.rmdir()


def _sweep(service: Service) -> None:
    """Stop the servers of sessions that were killed."""
    for session in Path(tempfile.gettempdir()).glob(f"{_PREFIX}{os.getuid()}-*"):
        users = session / f"{service.name}.users"
        if users.is_dir():
            _end_unused(Server(service, session / service.name), users)


def _directory(prefix: str) -> Path:
    """Return a new directory that a service under another user can enter."""
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    directory.chmod(0o711)
    return directory


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _lives(pid: int) -> bool:
    """Return whether the process runs; one that ended and waits for its parent does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    if Path("/proc/self").exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
