"""Services that stand in for real ones: one that answers, one that does not come up."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from amem_conformance.services.base import Service

_SERVE = """
import os, socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        with server.accept()[0] as client:
            client.sendall(str(os.getpid()).encode())
"""


class Echo(Service):
    name: ClassVar[str] = "echo"
    variable: ClassVar[str] = "AMEM_STAND_IN"

    def given(self, value: str) -> Mapping[str, str]:
        return {"endpoint": value}

    def prepare(self, directory: Path) -> None:
        (directory / "serve.py").write_text(_SERVE)

    def command(self, directory: Path, port: int) -> Sequence[str]:
        return [sys.executable, str(directory / "serve.py"), str(port)]

    def answers(self, port: int) -> bool:
        return bool(self._said(port))

    def address(self, port: int) -> Mapping[str, str]:
        return {"endpoint": f"127.0.0.1:{port}", "pid": self._said(port)}

    def _said(self, port: int) -> str:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
                return client.recv(20).decode()
        except OSError:
            return ""


class Broken(Echo):
    name: ClassVar[str] = "broken"

    def command(self, directory: Path, port: int) -> Sequence[str]:
        return [sys.executable, "-c", "import sys; sys.exit('there is no such thing as luck')"]
