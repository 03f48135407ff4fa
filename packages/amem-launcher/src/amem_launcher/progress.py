"""How far a slow command is: one line on the terminal, rewritten; nothing where stderr is no terminal."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

_PAUSE = 0.1


class Progress:
    """A line that counts; ``things`` is what it counts."""

    def __init__(self, things: str) -> None:
        self._things = things
        self._shown = False
        self._last = 0.0
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def of(self, done: int, total: int) -> None:
        """Show ``done`` of ``total``."""
        self._show(f"{done} of {total} {self._things}", force=done == total)

    def at(self, where: str, done: int) -> None:
        """Show how many are done at ``where``."""
        self._show(f"{where}: {done} {self._things}")

    def _show(self, text: str, *, force: bool = False) -> None:
        if not self._live or (time.monotonic() - self._last < _PAUSE and not force):
            return
        self._last = time.monotonic()
        self._shown = True
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
