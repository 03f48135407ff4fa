"""A lock between processes, held by an open file: the system ends it when its holder dies.

Own code and not the library ``filelock``: every command takes this path, and the library's import
costs more than the command's own work. A waiter asks again every few milliseconds, since a blocked
``flock`` cannot be given a time limit, and one that is left blocked on a thread takes the lock later,
when everybody believes that it is free. The pause stays short and does not grow with the waiting, so
that who waits longest is not at a disadvantage.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import Final

_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_FIRST_PAUSE: Final = 0.0002
_PAUSE: Final = 0.002


def acquire(path: str, wait: float) -> int | None:
    """Lock the file ``path``, made when missing; return its descriptor, None when ``wait`` seconds were not enough.

    Raises:
        OSError: the file cannot be opened or locked.
    """
    fd = os.open(path, _FLAGS, 0o600)
    try:
        if _locked(fd, wait):
            held, fd = fd, -1
            return held
        return None
    finally:
        if fd >= 0:
            os.close(fd)


def release(fd: int) -> None:
    """Unlock and close. Unlocking first frees it even where a forked child holds a copy of the descriptor."""
    try:
        fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        os.close(fd)


def _locked(fd: int, wait: float) -> bool:
    until = time.monotonic() + wait
    pause = _FIRST_PAUSE
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            left = until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, _PAUSE)
        else:
            return True
