"""What happens at the chosen step: nothing but counting, a death, an exception, or an error of the system."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
from collections.abc import Callable
from typing import Final, Literal

from amem_conformance.faults.steps import Step
from amem_core.errors import UnavailableError

When = Literal["before", "within", "after"]


class Crash(BaseException):
    """Ends what runs, as the end of a thread would. Whoever catches it and goes on is at fault."""


class Counting:
    """Takes down every step and lets it pass."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def before(self, step: Step) -> None:
        """Take it down."""
        self.steps.append(step)

    def after(self, step: Step) -> None:
        """Nothing."""


class Stopping:
    """Ends everything at the ``number``-th step that changes something: before it, when half of it is done, or after."""

    def __init__(self, number: int, when: When, end: Callable[[Step], None]) -> None:
        self.reached = False
        self._number = number
        self._when = when
        self._end = end
        self._count = 0
        self._waiting: Step | None = None

    def before(self, step: Step) -> None:
        """Stop before the step, or in its middle."""
        if not step.changes:
            return
        self._count += 1
        if self._count != self._number:
            return
        if self._when == "after":
            self._waiting = step
            return
        if self._when == "within" and step.partly is not None:
            step.partly()
        self._stop(step)

    def after(self, step: Step) -> None:
        """Stop after the step."""
        if step is self._waiting:
            self._waiting = None
            self._stop(step)

    def _stop(self, step: Step) -> None:
        self.reached = True
        self._end(step)


def kill(step: Step) -> None:  # noqa: ARG001  (how every end is called)
    """Die as ``kill -9`` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def crash(step: Step) -> None:
    """Raise what nothing may catch."""
    raise Crash(str(step))


# -- errors -----------------------------------------------------------------------------------------

DOWN: Final = "down"
ERRORS: Final = ("ENOSPC", "EIO", "EACCES", DOWN)
_NO_ROOM: Final = frozenset(
    {"open", "write", "pwrite", "writev", "fsync", "fdatasync", "replace", "rename", "link", "mkdir", "symlink"}
)
_NAMES: Final = frozenset(
    {
        *("open", "replace", "rename", "link", "symlink", "unlink", "remove", "rmdir", "mkdir", "truncate", "chmod"),
        *("listdir", "scandir", "stat", "lstat"),
    }
)
# SQLite does these from memory: they do not fail for want of a disk.
_UNFAILING: Final = frozenset({"ROLLBACK", "close"})
_SQL: Final = {
    "ENOSPC": ("database or disk is full", sqlite3.SQLITE_FULL),
    "EIO": ("disk I/O error", sqlite3.SQLITE_IOERR),
    "EACCES": ("unable to open database file", sqlite3.SQLITE_CANTOPEN),
}


class Failing:
    """Lets the ``number``-th step that ``kind`` can befall fail, and with ``lasting`` every one behind it, until mended."""

    def __init__(self, number: int, kind: str, *, lasting: bool) -> None:
        self.reached: Step | None = None
        self.mended = False
        self._number = number
        self._kind = kind
        self._lasting = lasting
        self._count = 0

    def before(self, step: Step) -> None:
        """Raise in place of the step, when its turn has come."""
        if self.mended or not befalls(self._kind, step):
            return
        self._count += 1
        if self._count == self._number or (self._lasting and self._count > self._number):
            self.reached = self.reached or step
            raise self._error(step)

    def after(self, step: Step) -> None:
        """Nothing."""

    def _error(self, step: Step) -> Exception:
        if self._kind == DOWN:
            message = f"{step.name.partition('.')[0]} is down"
            return UnavailableError(message, hint="bring it up")
        if step.layer == "sql":
            text, code = _SQL[self._kind]
            error = sqlite3.OperationalError(text)
            error.sqlite_errorcode = code
            return error
        if self._kind == "ENOSPC" and step.partly is not None:
            step.partly()  # A full disk takes what it has room for.
        number = int(getattr(errno, self._kind))
        return OSError(number, os.strerror(number), step.place)


def befalls(kind: str, step: Step) -> bool:
    """Return whether an error of this kind can come from a step."""
    if kind == DOWN:
        return step.layer == "port"
    if step.layer == "sql":
        return step.name not in _UNFAILING and (kind != "ENOSPC" or step.changes)
    if step.layer == "os":
        if kind == "ENOSPC":
            return step.changes and step.name in _NO_ROOM
        return kind == "EIO" or step.name in _NAMES
    return False
