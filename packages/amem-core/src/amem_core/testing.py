"""A clock that moves when told and ids that repeat: what makes a test exact. Needs no test framework."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from amem_core.system import encode


class FrozenClock:
    """Stands still until it is moved; ``now`` is aware and in UTC."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        """Return the time at which the clock stands."""
        return self._now

    def advance(self, *, seconds: float = 0, hours: float = 0, days: float = 0) -> datetime:
        """Move by so much, back when negative; return the new time."""
        self._now += timedelta(seconds=seconds, hours=hours, days=days)
        return self._now


class CountingIds:
    """Ids that count up from 1 and sort in the order in which they were made."""

    def __init__(self) -> None:
        self._count = 0

    def new(self, prefix: str, at: datetime) -> str:  # noqa: ARG002  (the port's signature)
        """Return ``prefix`` and the next number in 26 characters."""
        self._count += 1
        return prefix + encode(self._count)
