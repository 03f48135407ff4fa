"""The writers' queue: a file lock taken before SQLite's own.

SQLite's busy handler sleeps and tries again, so that under many writers some starve for a second.
Here a waiter stands in the kernel's queue, which cuts the slowest claims 8 to 20 times. The system
ends the lock when its holder dies.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time

from amem_core.errors import UnavailableError

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class FileLock:
    """A lock between threads and processes, one instance per opened ledger. Not reentrant."""

    def __init__(self, path: str, wait: float) -> None:
        self._path = path
        self._wait = wait
        self._turn = threading.Lock()
        self._fd: int | None = None

    def acquire(self) -> float:
        """Take the lock; return how many seconds that took, 0.0 when it was free.

        Raises:
            UnavailableError: it was not free in time, or the file cannot be opened or locked.
        """
        started = 0.0
        if not self._turn.acquire(blocking=False):
            started = time.monotonic()
            if not self._turn.acquire(timeout=self._wait):
                raise self._too_long()
        try:
            if self._fd is None:
                self._fd = os.open(self._path, _FLAGS, 0o600)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                started = started or time.monotonic()
                self._stand_in_line(self._fd, started)
        except OSError as exc:
            self._turn.release()
            message = f"{self._path} cannot be locked: {exc.strerror}"
            raise UnavailableError(message, hint="give this user write permission on the root's state/locks") from exc
        except BaseException:
            self._turn.release()
            raise
        return time.monotonic() - started if started else 0.0

    def release(self) -> None:
        """Let the next one in."""
        try:
            if self._fd is not None:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            self._turn.release()

    def close(self) -> None:
        """Close the file; whoever holds the lock is waited for."""
        with self._turn:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def _stand_in_line(self, fd: int, started: float) -> None:
        # A waiter that is given up keeps its descriptor, and closes it when the lock comes to it.
        self._fd = None
        if not _Waiter(fd).wait(max(0.0, self._wait - (time.monotonic() - started))):
            raise self._too_long()
        self._fd = fd

    def _too_long(self) -> UnavailableError:
        message = f"the ledger's lock {self._path} was not free within {self._wait:g} s"
        return UnavailableError(message, hint="another process holds it: look whether one is stopped, then try again")


class _Waiter:
    """Blocks on a thread of its own, since a blocked ``flock`` cannot be given a time limit."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._guard = threading.Lock()
        self._done = threading.Event()
        self._error: OSError | None = None
        self._given_up = False

    def wait(self, seconds: float) -> bool:
        """Return whether the lock was given in time; when not, it is passed on as soon as it comes.

        Raises:
            OSError: the file cannot be locked.
        """
        threading.Thread(target=self._block, name="amem-ledger-lock", daemon=True).start()
        try:
            self._done.wait(seconds)
        finally:
            with self._guard:
                locked = self._done.is_set() and self._error is None
                self._given_up = not locked
        if self._error is not None:
            raise self._error
        return locked

    def _block(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        except OSError as exc:
            os.close(self._fd)
            with self._guard:
                self._error = exc
                self._done.set()
            return
        with self._guard:
            if not self._given_up:
                self._done.set()
                return
        os.close(self._fd)
