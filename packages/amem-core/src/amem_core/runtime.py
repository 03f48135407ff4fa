"""One root's ports, opened on first use, with the clock, the id source and the decision log.

This is the one place that joins configuration, plugins and the use cases.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from amem_core.config import GRANTS, load_config
from amem_core.errors import NotFoundError, UnavailableError
from amem_core.plugins.loader import load_backend, open_backend
from amem_core.system import SystemClock, SystemIds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amem_core.config import Config
    from amem_core.domain.decisions import Decision
    from amem_core.ports.index import Index
    from amem_core.ports.ledger import Ledger
    from amem_core.ports.log import Log
    from amem_core.ports.policy import Policy
    from amem_core.ports.store import Store
    from amem_core.ports.system import Clock, Ids
    from amem_core.ports.tools import Tools

DECISIONS = os.path.join("state", "decisions.jsonl")
# One encoder for all: json.dumps with these settings would build one for each decision.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Runtime:
    """What the use cases stand on. Callable from any thread."""

    def __init__(self, root: str, config: Config, clock: Clock, ids: Ids, environ: Mapping[str, str]) -> None:
        self.root = root
        self.config = config
        self.clock = clock
        self.ids = ids
        self._environ = environ
        self._ports: dict[str, Any] = {}
        self._stack = ExitStack()
        self._lock = threading.RLock()
        self._decisions: int | None = None
        self._decisions_path = os.path.join(root, DECISIONS)
        # Domains whose index this process has found level with the log.
        self.followed: set[str] = set()
        # Domains in which, beyond that, this process has found no write cut short, or completed it.
        self.settled: set[str] = set()
        # Domains whose ledger this process has found with nothing left to carry to the log, or made so.
        self.carried: set[str] = set()
        # What readers are told of domains whose log is damaged where the index would have to follow it.
        self.alarms: dict[str, str] = {}

    @classmethod
    def open(cls, root: str, *, clock: Clock | None, ids: Ids | None, environ: Mapping[str, str]) -> Runtime:
        """Read the root's configuration; open nothing yet.

        Raises:
            NotFoundError: ``root`` has no ``grants.toml``.
            UnavailableError: whether it has one cannot be told.
            ConfigError: ``amem.toml`` is wrong.
        """
        root = os.path.abspath(root)
        try:
            os.stat(os.path.join(root, GRANTS))
        except (FileNotFoundError, NotADirectoryError) as exc:
            message = f"{root} is no amem root: it has no {GRANTS}"
            raise NotFoundError(message, hint=f"amem --root {root} init --domain NAME") from exc
        except OSError as exc:
            message = f"{os.path.join(root, GRANTS)} cannot be read: {exc.strerror}"
            raise UnavailableError(message, hint="give this user permission to read it, or mend the disk") from exc
        return cls(root, load_config(root), clock or SystemClock(), ids or SystemIds(), environ)

    @property
    def grants(self) -> str:
        """The path of the file whose content is the policy's."""
        return os.path.join(self.root, GRANTS)

    def _port(self, port: str) -> Any:
        opened = self._ports.get(port)
        if opened is None:
            with self._lock:
                opened = self._ports.get(port) or self._open(port)
        return opened

    def _open(self, port: str) -> Any:
        spec = load_backend(self.config.key(port), allow=self.config.allow)
        opened = open_backend(
            spec,
            self.root,
            self.config.tables.get(port),
            where=f"{self.config.path}: [{port}.{spec.name}]",
            environ=self._environ,
        )
        self._stack.callback(opened.close)
        self._ports[port] = opened
        return opened

    @property
    def store(self) -> Store:
        """The record."""
        store: Store = self._port("store")
        return store

    @property
    def index(self) -> Index:
        """The index."""
        index: Index = self._port("index")
        return index

    @property
    def ledger(self) -> Ledger:
        """The ledger."""
        ledger: Ledger = self._port("ledger")
        return ledger

    @property
    def log(self) -> Log:
        """The event log."""
        log: Log = self._port("log")
        return log

    @property
    def policy(self) -> Policy:
        """The policy."""
        policy: Policy = self._port("policy")
        return policy

    @property
    def tools(self) -> Tools:
        """The host of tools."""
        tools: Tools = self._port("tools")
        return tools

    def decide(
        self, action: str, session: Mapping[str, Any], resource: Mapping[str, Any], *, about: str | None = None
    ) -> Decision:
        """Ask the policy and log what it decided, before anything is done on the strength of it.

        Raises:
            UnavailableError: the decision cannot be logged; then nothing is done.
        """
        decision = self.policy.decide(action, {"session": session, "resource": resource})
        line = {
            "time": self.clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "action": action,
            "author": session["author"],
            "destination": session["destination"],
            "session_label": session["label"],
            "resource": resource,
            "about": about,
            "allowed": decision.allowed,
            "rules": decision.rules,
            "reasons": decision.reasons,
            "policy": decision.version,
        }
        self._log_decision(_encode(line).encode() + b"\n")
        return decision

    def _log_decision(self, line: bytes) -> None:
        try:
            with self._lock:
                if self._decisions is None:
                    self._decisions = self._open_decisions()
                written = os.write(self._decisions, line)
        except OSError as exc:
            message = f"the decision cannot be logged to {self._decisions_path}: {exc.strerror}; nothing was done"
            raise UnavailableError(message, hint="make room, or give this user write permission there") from exc
        if written < len(line):
            message = f"the decision was only partly logged to {self._decisions_path}; nothing was done"
            raise UnavailableError(message, hint="make room on that file system")

    def _open_decisions(self) -> int:
        path = self._decisions_path
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._stack.callback(self._close_decisions)
        return opened

    def _close_decisions(self) -> None:
        if self._decisions is not None:
            os.close(self._decisions)
            self._decisions = None

    def close(self) -> None:
        """Close every port that was opened, the last first. Idempotent."""
        with self._lock:
            self._ports.clear()
            self._stack.close()
