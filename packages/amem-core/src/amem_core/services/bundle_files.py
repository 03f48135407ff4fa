"""A bundle's directory: what is read of it stays inside, what is written to it is whole or gone."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, Self, cast

from amem_core.errors import AmemError, ConflictError, InvalidError, NotFoundError, UnavailableError

if TYPE_CHECKING:
    from types import TracebackType

ENTRIES = "entries"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO that somebody put there must not hang; files do not know it.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_PART = 1024 * 1024
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class BundleReading:
    """An existing bundle. No symbolic link below its directory is followed.

    Raises:
        NotFoundError: ``path`` is no directory.
        UnavailableError: it cannot be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._entries: int | None = None
        try:
            self._top = os.open(path, _DIRECTORY)
        except (FileNotFoundError, NotADirectoryError) as exc:
            message = f"{path} is no directory"
            raise NotFoundError(message, hint="a bundle is a directory that amem export wrote") from exc
        except OSError as exc:
            raise self._unreadable("", exc) from exc

    def open(self, relative: str) -> BinaryIO:
        """Open a plain file beside the manifest, or below ``entries``.

        Raises:
            InvalidError: it is missing, or no plain file.
            UnavailableError: it cannot be read.
        """
        try:
            fd = self._descriptor(relative)
        except FileNotFoundError as exc:
            message = f"the bundle has no {relative}"
            raise InvalidError(message, hint="export it again; nothing was imported") from exc
        except OSError as exc:
            # A link is refused with one error where a file was wanted and with another where a directory was.
            if self._leads_away(relative):
                message = (
                    f"{os.path.join(self.path, relative)} is, or lies behind, a symbolic link and leaves the bundle"
                )
                raise InvalidError(message, hint="export it again; nothing was imported") from exc
            raise self._unreadable(relative, exc) from exc
        try:
            plain = stat.S_ISREG(os.fstat(fd).st_mode)
        except OSError as exc:
            os.close(fd)
            raise self._unreadable(relative, exc) from exc
        if not plain:
            os.close(fd)
            message = f"{os.path.join(self.path, relative)} is no plain file"
            raise InvalidError(message, hint="export it again; nothing was imported")
        return open(fd, "rb")

    def read(self, relative: str, largest: int) -> bytes:
        """Return a plain file's bytes.

        Raises:
            InvalidError: it is missing, no plain file, or larger than ``largest`` bytes.
            UnavailableError: it cannot be read.
        """
        with self.open(relative) as file:
            # No more is asked for than is there: what is asked for is set aside before it is read.
            try:
                size = os.fstat(file.fileno()).st_size
            except OSError as exc:
                raise self._unreadable(relative, exc) from exc
            if size > largest:
                message = f"{relative} is larger than {largest} bytes"
                raise InvalidError(message, hint="no amem wrote this bundle; nothing was imported")
            try:
                return file.read(size)
            except OSError as exc:
                raise self._unreadable(relative, exc) from exc

    def digest(self, relative: str) -> str:
        """Return the SHA-256 of a plain file, in hexadecimal; of whatever size.

        Raises:
            InvalidError: it is missing, or no plain file.
            UnavailableError: it cannot be read.
        """
        with self.open(relative) as file:
            whole = hashlib.sha256()
            try:
                while part := file.read(_PART):
                    whole.update(part)
            except OSError as exc:
                raise self._unreadable(relative, exc) from exc
        return whole.hexdigest()

    def has(self, name: str) -> bool:
        """Return whether something of this name lies beside the manifest."""
        try:
            os.stat(name, dir_fd=self._top, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as exc:
            raise self._unreadable(name, exc) from exc
        return True

    def close(self) -> None:
        """Release the directory."""
        for fd in (self._entries, self._top):
            if fd is not None:
                os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _descriptor(self, relative: str) -> int:
        directory, _, name = relative.rpartition("/")
        if not directory:
            return os.open(name, _READ, dir_fd=self._top)
        if self._entries is None:
            self._entries = os.open(ENTRIES, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self._top)
        return os.open(name, _READ, dir_fd=self._entries)

    def _leads_away(self, relative: str) -> bool:
        path = self.path
        for part in relative.split("/"):
            path = os.path.join(path, part)
            if os.path.islink(path):
                return True
        return False

    def _unreadable(self, relative: str, exc: OSError) -> UnavailableError:
        message = f"{os.path.join(self.path, relative)} cannot be read: {exc.strerror}"
        return UnavailableError(message, hint="give this user read permission on it")


class BundleWriting:
    """A new bundle in a new or empty directory. What was written goes again when the block fails.

    Raises:
        ConflictError: the directory holds something.
        UnavailableError: it cannot take a bundle; and, where the block ends, that a file could not be written.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
            if os.listdir(path):
                message = f"{path} is not empty"
                raise ConflictError(message, hint="name a new or empty directory")
            os.mkdir(os.path.join(path, ENTRIES), 0o700)
            self._top = os.open(path, _DIRECTORY)
            self._entries = os.open(ENTRIES, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self._top)
        except OSError as exc:
            message = f"{path} cannot take a bundle: {exc.strerror}"
            raise UnavailableError(message, hint="name a directory that this user may write to") from exc

    def create(self, name: str) -> BinaryIO:
        """Create a file beside the entries, for this user alone, to be written and read."""
        return open(os.open(name, _CREATE, 0o600, dir_fd=self._top), "w+b")

    def spool(self) -> BinaryIO:
        """Return a file without a name on the same file system, which goes when it is closed."""
        import tempfile

        return cast("BinaryIO", tempfile.TemporaryFile(dir=self.path))

    def save_entry(self, name: str, data: bytes) -> None:
        """Write one file below ``entries``."""
        with open(os.open(name, _CREATE, 0o600, dir_fd=self._entries), "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]

    def has_entry(self, name: str) -> bool:
        """Return whether a file of this name was written below ``entries``."""
        try:
            os.stat(name, dir_fd=self._entries, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def settle(self, file: BinaryIO, name: str, final: str) -> None:
        """Give a finished file its final name, durably."""
        file.flush()
        os.fsync(file.fileno())
        os.rename(name, final, src_dir_fd=self._top, dst_dir_fd=self._top)
        os.fsync(self._entries)
        os.fsync(self._top)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._clear()
        os.close(self._entries)
        os.close(self._top)
        # No port lets an error of the operating system through: this one is of the bundle's own files.
        if isinstance(error, OSError) and not isinstance(error, AmemError):
            message = f"the bundle at {self.path} cannot be written: {error.strerror}; there is none"
            raise UnavailableError(message, hint="make room there, or name another directory") from error

    def _clear(self) -> None:
        """Remove what was written: the directory was new or empty, so all of it is this object's."""
        with suppress(OSError):
            for name in os.listdir(self._entries):
                os.unlink(name, dir_fd=self._entries)
            os.rmdir(ENTRIES, dir_fd=self._top)
            for name in os.listdir(self._top):
                os.unlink(name, dir_fd=self._top)
