"""A lock between processes, held by an open file: the system ends it when its holder dies.

Own code and not the library ``filelock``: every command takes this path, the library's import costs
more than the command's own work, and it waits by polling, under which many writers starve. Here a
waiter stands in the kernel's queue.
"""

from __future__ import annotations

import fcntl
import os
import threading
from typing import Final

_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def acquire(path: str, wait: float) -> int | None:
    """Lock the file ``path``, made when missing; return its descriptor, None when ``wait`` seconds were not enough.

    Raises:
        OSError: the file cannot be opened or locked.
    """
    fd = os.open(path, _FLAGS, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if wait <= 0:
            os.close(fd)
            return None
        return _Waiter(fd).wait(wait)
    except OSError:
        os.close(fd)
        raise
    return fd


def release(fd: int) -> None:
    """Unlock and close. Unlocking first frees it even where a forked child holds a copy of the descriptor."""
    try:
        fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        os.close(fd)


class _Waiter:
    """Waits in the kernel's queue on a thread of its own, since a blocked ``flock`` cannot be given a time limit.

    Whoever gives up leaves the thread behind; it ends, and lets go, when the lock comes to it.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._mutex = threading.Lock()
        self._done = threading.Event()
        self._error: OSError | None = None
        self._given_up = False

    def wait(self, seconds: float) -> int | None:
        """Return the descriptor once it is locked, None when it took too long."""
        threading.Thread(target=self._block, name="amem-lock", daemon=True).start()
        self._done.wait(seconds)
        with self._mutex:
            if self._error is not None:
                raise self._error
            if self._done.is_set():
                return self._fd
            self._given_up = True
            return None

    def _block(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        except OSError as exc:
            self._error = exc
            os.close(self._fd)
            self._done.set()
            return
        with self._mutex:
            if not self._given_up:
                self._done.set()
                return
        release(self._fd)
