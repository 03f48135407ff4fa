"""The system calls that the record and the log rest on, in one place, so that no caller forgets a flag.

Nothing here follows a symbolic link in a last component, and every error of the operating system
leaves as an ``UnavailableError`` that names the path and what to do.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from amem_core.errors import UnavailableError

OWNER_FILE: Final = 0o600
OWNER_DIRECTORY: Final = 0o700

# O_NONBLOCK: opening a FIFO that somebody left in the record must not hang; files do not know it.
READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_LINKS = "put a plain file or directory in its place: no symbolic link is followed there"
_ACCESS = "give the user that runs amem access to it"
_HINTS: Final = {
    errno.ENOSPC: "make room on the disk, then repeat",
    errno.EDQUOT: "make room in the quota, then repeat",
    errno.EACCES: _ACCESS,
    errno.EPERM: _ACCESS,
    errno.EROFS: "mount the file system for writing, then repeat",
    errno.EIO: "check the disk, and restore the file from a copy if it is damaged",
    errno.ELOOP: _LINKS,
    errno.ENOTDIR: _LINKS,
    errno.ENOENT: "restore it from a copy, or run 'amem init' if the root is new",
    errno.EMFILE: "close programs, or raise the limit of open files, then repeat",
}


if sys.platform == "darwin":
    import fcntl

    def fsync(fd: int) -> None:
        """Make the file or directory durable. There ``fsync`` stops at the drive's cache."""
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        except OSError:
            os.fsync(fd)  # Not every file system knows the stronger call.

    fdatasync = fsync
else:
    fsync = os.fsync
    fdatasync = os.fdatasync


def unavailable(exc: OSError, doing: str, path: str) -> UnavailableError:
    """Return the error to raise for ``exc``: what was being done, to which path, and the remedy."""
    hint = _HINTS.get(exc.errno or 0, "see the reason, then repeat; 'amem doctor' checks the whole root")
    message = f"cannot {doing} {shown(path)}: {exc.strerror or exc}"
    return UnavailableError(message, hint=hint, path=shown(path), errno=exc.errno)


@contextmanager
def translated(doing: str, path: str) -> Generator[None]:
    """Turn an error of the operating system inside the block into an ``UnavailableError``."""
    try:
        yield
    except OSError as exc:
        raise unavailable(exc, doing, path) from exc


def shown(path: str) -> str:
    """Return ``path`` as valid text: a name that is not UTF-8 is shown with escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def make_directory(path: str) -> bool:
    """Make a directory for the owner alone; return False when it is there already.

    Raises:
        OSError: it cannot be made, its parent is missing, or it is there and is no directory.
    """
    try:
        os.mkdir(path, OWNER_DIRECTORY)
    except FileExistsError:
        if stat.S_ISDIR(os.stat(path).st_mode):
            return False
        raise
    return True


def make_below(parent: int, name: str) -> bool:
    """Make the directory ``name`` in ``parent`` for the owner alone; return False when the name is taken."""
    try:
        os.mkdir(name, OWNER_DIRECTORY, dir_fd=parent)
    except FileExistsError:
        return False
    return True


def sync_directory(path: str, fsync: Callable[[int], None]) -> None:
    """Make the names in the directory ``path`` durable."""
    fd = os.open(path, DIRECTORY)
    try:
        fsync(fd)
    finally:
        os.close(fd)


def open_below(parent: int, name: str) -> int | None:
    """Return a descriptor of the directory ``name`` in ``parent``, None when there is none.

    Raises:
        OSError: it is no directory, or a symbolic link, or cannot be opened.
    """
    try:
        return os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except FileNotFoundError:
        return None


def open_inside(directory: str, name: str) -> int | None:
    """Return a descriptor of the directory ``name`` in ``directory``, None when there is none; ``directory`` must be.

    Raises:
        OSError: either is no directory or cannot be opened, ``name`` is a symbolic link, ``directory`` is missing.
    """
    try:
        return os.open(os.path.join(directory, name), DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        os.close(os.open(directory, DIRECTORY))
        return None


def read_below(parent: int, name: str) -> bytes | None:
    """Return the bytes of the file ``name`` in the directory ``parent``, None when there is none.

    Raises:
        OSError: it is no plain file, or cannot be read.
    """
    try:
        fd = os.open(name, READ, dir_fd=parent)
    except FileNotFoundError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file")
        return read_all(fd, found.st_size)
    finally:
        os.close(fd)


def read_all(fd: int, size: int) -> bytes:
    """Return what is left to read of ``fd``; ``size`` is what to expect, in bytes."""
    data = os.read(fd, size + 1)
    if len(data) == size:
        return data
    pieces = [data]
    while piece := os.read(fd, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def write_all(fd: int, data: bytes) -> None:
    """Write all of ``data``; the system may take it in several pieces.

    Raises:
        OSError: it cannot be written whole.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def same_file(parent: int, name: str, other: int, other_name: str) -> bool:
    """Return whether two names are one file; False when either is missing."""
    try:
        one = os.stat(name, dir_fd=parent, follow_symlinks=False)
        two = os.stat(other_name, dir_fd=other, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(one, two)


def remove_below(parent: int, name: str) -> None:
    """Remove the file ``name`` in ``parent``; nothing happens when there is none."""
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return


def holds(parent: int, name: str, data: bytes) -> bool:
    """Return whether ``name`` in ``parent`` is a plain file of exactly these bytes."""
    try:
        return read_below(parent, name) == data
    except OSError:
        return False


def begin_writing(fd: int) -> None:
    """Let the disk begin to write what ``fd`` holds, so that the fsyncs of a group wait for it together."""
    if sys.platform == "linux":
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
