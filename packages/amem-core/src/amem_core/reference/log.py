"""A log in memory that is short and obvious: what the others are compared with, and what tests of services use."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from amem_core.domain.events import Event, NewEvent
from amem_core.domain.names import check_domain
from amem_core.errors import InvalidError, UnavailableError
from amem_core.format.events import GENESIS, decode_event, encode_event, link
from amem_core.ports.log import LogCapabilities, LogWriter

_SITES: dict[str, _State] = {}
_SITES_LOCK: Final = threading.Lock()


class _State:
    """What all instances on one root share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lines: dict[str, list[bytes]] = {}
        self.busy: dict[str, threading.Lock] = {}


def open_log(root: str, settings: object = None) -> MemoryLog:  # noqa: ARG001  (as all factories are called)
    """Open the log of ``root``: instances on one root share what they keep, as long as the process lives."""
    with _SITES_LOCK:
        return MemoryLog(_SITES.setdefault(root, _State()))


class MemoryLog:
    """A ``Log`` (amem_core.ports.log) in lists. It keeps lines, so that nobody can change an event after the fact."""

    def __init__(self, state: _State) -> None:
        self._state = state

    @property
    def capabilities(self) -> LogCapabilities:
        """See ``Log.capabilities``."""
        return LogCapabilities()

    @contextmanager
    def writer(self, domain: str, *, wait: float = 30.0) -> Generator[LogWriter]:
        """See ``Log.writer``."""
        check_domain(domain)
        with self._state.lock:
            busy = self._state.busy.setdefault(domain, threading.Lock())
            lines = self._state.lines.setdefault(domain, [])
        if not (busy.acquire(timeout=wait) if wait > 0 else busy.acquire(blocking=False)):
            message = f"another writer of {domain!r} did not end within {wait:g} s"
            raise UnavailableError(message, hint="repeat when it has ended")
        writer = _Writer(domain, lines)
        try:
            yield writer
        finally:
            writer.open = False
            busy.release()

    def head(self, domain: str) -> int:
        """See ``Log.head``."""
        return len(self._state.lines.get(check_domain(domain), ()))

    def read(self, domain: str, after: int = 0) -> Iterator[Event]:
        """See ``Log.read``."""
        lines = self._state.lines.get(check_domain(domain), [])
        return (decode_event(line, domain=domain) for line in lines[max(0, after) :])

    def torn(self, domain: str) -> int:
        """See ``Log.torn``."""
        check_domain(domain)
        return 0

    def domains(self) -> list[str]:
        """See ``Log.domains``."""
        with self._state.lock:
            return sorted(domain for domain, lines in self._state.lines.items() if lines)

    def close(self) -> None:
        """See ``Log.close``."""


class _Writer:
    """The one writer of a domain, until its context ends."""

    def __init__(self, domain: str, lines: list[bytes]) -> None:
        self._domain = domain
        self._lines = lines
        self.open = True

    @property
    def head(self) -> int:
        """See ``LogWriter.head``."""
        return len(self._lines)

    def append(self, events: Sequence[NewEvent]) -> list[Event]:
        """See ``LogWriter.append``."""
        if not self.open:
            message = f"the writer of {self._domain!r} has ended"
            raise InvalidError(message, hint="become the writer again, then append")
        previous = decode_event(self._lines[-1], domain=self._domain).chain if self._lines else GENESIS
        placed: list[Event] = []
        for seq, event in enumerate(events, len(self._lines) + 1):
            placed.append(link(previous, domain=self._domain, seq=seq, event=event))
            previous = placed[-1].chain
        self._lines += [encode_event(event) for event in placed]  # At once, so that no reader sees half of them.
        return placed
