"""The Policy port on Rego: every answer comes from the policy's text, and no answer is a denial."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from amem_core.errors import AmemError, ConfigError, ConflictError, UnavailableError
from amem_core.ports.policy import PolicyCapabilities
from amem_policy.remembered import Remembered
from amem_policy.stamps import FILE, UNREAD, stamp_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amem_core.domain.decisions import Decision
    from amem_core.domain.labels import Label
    from amem_core.domain.queries import ReadFilter
    from amem_policy.bundle import Bundle
    from amem_policy.config import RegoSettings
    from amem_policy.state import State


def open_policy(root: str, settings: RegoSettings) -> RegoPolicy:
    """Open the policy of ``root``: its own text or the built-in one, over its ``grants.toml``.

    A root without grants is opened and denies everything. When the answers that are remembered for
    the owner stand for the files as they are, text and grants are read when something else is asked.

    Raises:
        ConfigError: the grants or the policy's text are broken; file and line are named.
        UnknownFormatError: a newer amem wrote the grants.
        UnavailableError: a file is there and cannot be read.
    """
    policy = RegoPolicy(root, settings.bundle)
    if not policy.remembers():
        policy.refuse_faults()
    return policy


class RegoPolicy:
    """Decides with one text over grants that are read again whenever the file changes."""

    def __init__(self, root: str, directory: str) -> None:
        self._root = root
        self._directory = directory
        self._path = os.path.join(root, FILE)
        self._lock = threading.Lock()
        self._remembered = Remembered(root, directory)
        self._bundle: Bundle | None = None
        self._state: State | None = None

    def remembers(self) -> bool:
        """Return whether nothing was read yet and what is remembered stands for the files as they are."""
        return self._state is None and self._remembered.stands()

    def refuse_faults(self) -> None:
        """Raise what is wrong with grants or text now; later it denies instead."""
        from amem_policy.engine import EngineFailure, check

        state = self._current()
        if state.fault is not None:
            raise state.fault
        try:
            check(self._text())
        except EngineFailure as exc:
            raise ConfigError(str(exc), hint="mend the policy, or take its directory out of the root") from exc

    @property
    def version(self) -> str:
        """Identifies the policy's text and the grants together."""
        return self._remembered.version if self.remembers() else self._current().version

    @property
    def capabilities(self) -> PolicyCapabilities:
        """Reasons and rules come with every decision."""
        return PolicyCapabilities(explain=True)

    def decide(self, action: str, input: Mapping[str, Any]) -> Decision:
        """Decide one action; deny and say why when there is no answer."""
        if self.remembers() and (decision := self._remembered.decision(action, input)) is not None:
            return decision
        state = self._current()
        decision = state.decide(action, input)
        self._remembered.keep_decision(state.version, action, input, decision)
        return decision

    def read_filter(self, session: Mapping[str, Any]) -> ReadFilter:
        """Return what the session may read; nothing at all when the policy gives no answer."""
        if self.remembers() and (known := self._remembered.read_filter(session)) is not None:
            return known
        state = self._current()
        readable = state.read_filter(session)
        self._remembered.keep_read_filter(state.version, session, readable)
        return readable

    def domains(self) -> list[str]:
        """Return the domains that the grants know, sorted.

        Raises:
            UnavailableError: the grants cannot be read, so that nobody knows which there are.
        """
        state = self._current()
        if isinstance(state.fault, UnavailableError):
            raise state.fault
        return sorted(state.domains)

    def init_domain(self, domain: str, label: Label | None) -> bool:
        """Grant the owner a new domain; return False when the grants know it already.

        Raises:
            ConfigError: the grants are broken.
            UnavailableError: the grants cannot be written.
        """
        from amem_core.domain.labels import Label
        from amem_policy.grants import add_domain

        try:
            add_domain(self._path, domain, Label.internal if label is None else label)
        except ConflictError:
            return False
        return True

    def close(self) -> None:
        """Forget what was decided, and remember for the next start what the owner was answered. Idempotent."""
        if self._state is not None:
            self._state.decided.cache_clear()
        self._remembered.save()

    def _text(self) -> Bundle:
        if self._bundle is None:
            from amem_policy.bundle import load_bundle

            self._bundle = load_bundle(self._root, self._directory)
        return self._bundle

    def _current(self) -> State:
        """Return the state for the grants as they stand on disk: once it was read, that costs one look at the file."""
        try:
            stamp: tuple[int, ...] | tuple[str, ...] | None = stamp_of(self._path)
        except AmemError:
            stamp = UNREAD
        state = self._state
        if state is not None and stamp == state.stamp:
            return state
        from amem_policy.state import State

        with self._lock:
            if self._state is None or self._state.stamp != stamp:
                self._state = State(self._path, self._text())
            return self._state
