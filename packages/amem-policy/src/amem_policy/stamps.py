"""Telling one state of a file from another without reading it."""

from __future__ import annotations

import os

from amem_core.errors import UnavailableError

FILE = "grants.toml"

UNREAD = ("unread",)
"""Stands for a file that could not even be looked at."""

Stamp = tuple[int, ...] | None


def stamp_of(path: str) -> Stamp:
    """Return what tells one state of the file from another, None when there is no file.

    Raises:
        UnavailableError: it cannot be told.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise unreadable(path, exc) from exc
    return stamp(found)


def stamp(found: os.stat_result) -> tuple[int, ...]:
    """Return the stamp of a file whose status is ``found``."""
    return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns)


def unreadable(path: str, exc: OSError) -> UnavailableError:
    """Return the error for a file of the policy that is there and cannot be read."""
    message = f"{path} cannot be read: {exc.strerror}"
    return UnavailableError(message, hint="give this user read permission there, or name another root")
