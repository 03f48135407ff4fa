"""The clock and the id source of real life. Tests inject those of ``amem_core.testing``."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_RANDOM_BITS = 80


class SystemClock:
    """The machine's wall clock."""

    def now(self) -> datetime:
        """Return the present time, aware and in UTC."""
        return datetime.now(UTC)


class SystemIds:
    """Ids of 48 bits of milliseconds and 80 random bits, growing within one millisecond."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = (-1, 0)

    def new(self, prefix: str, at: datetime) -> str:
        """Return ``prefix`` and 26 lower-case characters of Crockford's base 32, ordered by ``at``."""
        milliseconds = max(0, int(at.timestamp() * 1000))
        with self._lock:
            if self._last[0] == milliseconds:
                noise = (self._last[1] + 1) % (1 << _RANDOM_BITS)
            else:
                # The top bit stays clear, so that counting up inside one millisecond does not wrap.
                noise = int.from_bytes(os.urandom(10), "big") >> 1
            self._last = (milliseconds, noise)
        return prefix + encode((milliseconds << _RANDOM_BITS) | noise)


def encode(number: int) -> str:
    """Return 130 bits of ``number`` as 26 characters of Crockford's base 32."""
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))
