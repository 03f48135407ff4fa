"""The clock and the id source. Both are injected everywhere, so that tests are exact."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the present time, aware and in UTC."""
        ...


class Ids(Protocol):
    """Makes names that are unique and sort by the time at which they were made."""

    def new(self, prefix: str, at: datetime) -> str:
        """Return ``prefix`` and 26 lower-case characters of Crockford's base 32, ordered by ``at``."""
        ...
