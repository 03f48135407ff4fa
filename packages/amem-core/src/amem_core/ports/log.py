"""The Log port: what happened, per domain, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from amem_core.domain.events import Event, NewEvent


class LogCapabilities(NamedTuple):
    """What a log can promise beyond the base contract."""

    multi_process: bool = False


class LogWriter(Protocol):
    """The one writer of a domain, for as long as its context lasts."""

    @property
    def head(self) -> int:
        """The sequence number of the last event; 0 for none."""
        ...

    def append(self, events: Sequence[NewEvent]) -> list[Event]:
        """Append the events together; durable on return, all of them or none.

        Raises:
            UnavailableError: the log cannot be written (no room, no permission, no broker). Nothing
                was appended.
        """
        ...


class Log(Protocol):
    """The event log: per domain, gapless from 1, append-only, ordered, durable when acknowledged.

    Callable from any thread.
    """

    @property
    def capabilities(self) -> LogCapabilities:
        """What this log can promise, as configured."""
        ...

    def writer(self, domain: str, *, wait: float = 30.0) -> AbstractContextManager[LogWriter]:
        """Become the domain's only writer, across threads and processes, and repair a torn tail.

        ``wait`` is how many seconds to wait for another writer to end; 0 does not wait.

        Raises:
            UnavailableError: another writer did not end in time.
            CorruptionError: the tail cannot be told apart from damage.
        """
        ...

    def head(self, domain: str) -> int:
        """Return the sequence number of the last durable event, 0 for none. Costs no scan."""
        ...

    def read(self, domain: str, after: int = 0) -> Iterator[Event]:
        """Yield the events with a sequence number above ``after``, in order. A torn tail is not yielded.

        Raises:
            CorruptionError: an event inside the log is damaged, missing or out of order; the message
                names where. Nothing after it is lost: a caller may go on with a later ``after``.
        """
        ...

    def torn(self, domain: str) -> int:
        """Return how many bytes stand behind the last whole event, as a crash leaves them; 0 for none. Costs no scan.

        Nobody was told that they were written, and the next writer repairs them. A writer at work
        may be seen as such a tail for a moment.
        """
        ...

    def domains(self) -> list[str]:
        """Return the domains that have at least one event, sorted."""
        ...

    def close(self) -> None:
        """Release what is held. Idempotent."""
        ...
