"""Connections to the one file, its lock among writers, and what to say when it fails.

Each thread has a connection of its own. A writer takes a file lock before it begins: SQLite's own
waiting sleeps and starves, a lock's does far less. The file may be deleted or replaced at any time, by
a person or by a rebuild of what was damaged: a connection to a file that is no longer there is dropped.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from amem_core.errors import AmemError, InternalError, InvalidError, UnavailableError
from amem_index import _schema

if TYPE_CHECKING:
    from collections.abc import Generator

    from amem_index.config import SqliteSettings

_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_WAITING = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_HINTS = {
    sqlite3.SQLITE_FULL: "free some space, then try again",
    sqlite3.SQLITE_READONLY: "make the file and its directory writable",
    sqlite3.SQLITE_CANTOPEN: "make the directory readable and writable",
    sqlite3.SQLITE_PERM: "make the file and its directory writable",
    sqlite3.SQLITE_NOMEM: "free some memory, then try again",
}
_FIRST_PAUSE = 0.0005
_LONGEST_PAUSE = 0.005


class DamagedError(UnavailableError):
    """The file is no index any more. It is derived, so a rebuild starts it anew."""


class _Handle:
    """One connection and the file that it is of; the lock keeps it from being closed while in use."""

    __slots__ = ("connection", "file", "lock", "thread")

    def __init__(self, connection: sqlite3.Connection, file: tuple[int, int]) -> None:
        self.connection = connection
        self.file = file
        self.lock = threading.Lock()
        self.thread = threading.current_thread()


class _Using:
    """The use of a thread's connection. A class and not a generator: this is on the path of every call."""

    __slots__ = ("_database", "_handle")

    def __init__(self, database: Database) -> None:
        self._database = database
        self._handle: _Handle | None = None

    def __enter__(self) -> sqlite3.Connection:
        try:
            self._handle = self._database.acquire()
        except BaseException as error:
            self._database.reraise(error)
            raise
        return self._handle.connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._handle is not None:
            self._handle.lock.release()
        if error is not None:
            self._database.reraise(error)


class Database:
    """The file ``path``, made when it is first used, of what ``STATEMENTS`` make in ``VERSION``."""

    VERSION = _schema.VERSION
    STATEMENTS: tuple[str, ...] = _schema.STATEMENTS

    def __init__(self, path: str, settings: SqliteSettings) -> None:
        self.path = path
        self.busy_seconds = settings.busy_seconds
        self._settings = settings
        self._local = threading.local()
        self._handles: list[_Handle] = []
        self._guard = threading.Lock()
        self._closed = False
        self._process = os.getpid()
        self._inherited: list[_Handle] = []

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Give this thread's connection inside one read transaction, so that all its statements see one state."""
        with self.connection() as connection:
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Give this thread's connection inside one write transaction, committed when the block ends well."""
        with self.connection() as connection, self.locked():
            # Inside, so that whatever interrupts it right behind leaves no transaction open, which all others would wait for.
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def connection(self) -> _Using:
        """Give this thread's connection; what SQLite raises in the block leaves it translated."""
        return _Using(self)

    def acquire(self) -> _Handle:
        """Return this thread's handle, locked for its use."""
        handle = self._handle()
        handle.lock.acquire()
        if self._closed:
            handle.lock.release()
            raise self._closed_error()
        return handle

    @contextmanager
    def locked(self, name: str = "lock", seconds: float | None = None) -> Generator[None]:
        """Hold the file lock ``<path>.<name>``, which one thread of all processes can.

        Raises:
            UnavailableError: it was not to be had in ``seconds``, by default those of the settings, or cannot be made.
        """
        try:
            lock = os.open(f"{self.path}.{name}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            self.reraise(error)
            raise
        try:
            self._take(lock, self.busy_seconds if seconds is None else seconds)
            yield
        finally:
            # Closing lets go of the lock, since each holder has opened the file for itself.
            os.close(lock)

    def discard(self) -> None:
        """Delete the file, so that the next use makes an empty one. Nothing is kept of it: it may hold what was erased."""
        try:
            with self.locked():
                self._drop_own()
                self._unlink()
        except (sqlite3.Error, OSError) as error:
            self.reraise(error)

    def close(self) -> None:
        """Close every connection once its user is done; what comes after is refused."""
        with self._guard:
            self._closed = True
            if self._process != os.getpid():
                self._forked()
            handles, self._handles = self._handles, []
        for handle in handles:
            with handle.lock:
                handle.connection.close()

    def _handle(self) -> _Handle:
        if self._closed:
            raise self._closed_error()
        if self._process != os.getpid():
            self._guard = threading.Lock()  # Another thread of the parent may have held it.
            self._forked()
        handle: _Handle | None = getattr(self._local, "handle", None)
        if handle is not None:
            if handle.file == self._identity():
                return handle
            self._drop_own()
        handle = self._open()
        with self._guard:
            self._handles = [kept for kept in self._handles if not self._left(kept)]
            self._handles.append(handle)
        self._local.handle = handle
        return handle

    def _forked(self) -> None:
        """Leave a parent's connections alone: they are not this process's to use or to close."""
        self._inherited += self._handles
        self._local = threading.local()
        self._handles = []
        self._process = os.getpid()

    @staticmethod
    def _left(handle: _Handle) -> bool:
        """Close a connection whose thread has ended; return whether it has."""
        if handle.thread.is_alive():
            return False
        handle.connection.close()
        return True

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    def _drop_own(self) -> None:
        handle: _Handle | None = getattr(self._local, "handle", None)
        if handle is not None:
            self._local.handle = None
            handle.connection.close()
            with self._guard:
                self._handles = [kept for kept in self._handles if kept is not handle]

    def _open(self) -> _Handle:
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        connection = self._connect()
        try:
            if connection.execute("PRAGMA user_version").fetchone()[0] != self.VERSION:
                connection = self._make(connection)
            return _Handle(connection, self._identity() or (0, 0))
        except BaseException:
            connection.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=self.busy_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute(f"PRAGMA cache_size = {-1024 * self._settings.cache_mib}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _make(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """Make the tables, in an empty file or in place of another version's."""
        with self.locked():
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == self.VERSION:
                return connection
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                connection.close()
                self._unlink()
                connection = self._connect()
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            for statement in self.STATEMENTS:
                connection.execute(statement)
            connection.execute("COMMIT")
            return connection

    def _unlink(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            try:
                os.unlink(self.path + suffix)
            except FileNotFoundError:
                continue

    def _take(self, lock: int, seconds: float) -> None:
        pause = _FIRST_PAUSE
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    message = f"the index {self.path} has been held by another writer for {seconds:g} s"
                    raise UnavailableError(message, hint="try again, or end the process that hangs") from error
                time.sleep(pause)
                pause = min(pause * 1.2, _LONGEST_PAUSE)
            else:
                return

    def _closed_error(self) -> AmemError:
        return UnavailableError(f"the index {self.path} is closed", hint="open it again")

    def reraise(self, error: BaseException) -> None:
        """Raise in place of ``error`` what may cross the port; return when it may cross itself."""
        if isinstance(error, AmemError):
            return
        if isinstance(error, sqlite3.Error):
            raise self._error(error) from error
        if isinstance(error, OverflowError):
            message = f"a number is too large for the index {self.path}: {error}"
            raise InvalidError(message, hint="give one below 2**63") from error
        if isinstance(error, OSError):
            message = f"the index {self.path} cannot be used: {error.strerror or error}"
            hint = "make the directory writable, or free some space; the record is not touched"
            raise UnavailableError(message, hint=hint) from error

    def _error(self, error: sqlite3.Error) -> AmemError:
        # Extended codes carry the primary one in their low byte.
        code = (getattr(error, "sqlite_errorcode", None) or sqlite3.SQLITE_ERROR) & 0xFF
        if code in _DAMAGED or (code == sqlite3.SQLITE_ERROR and "no such " in str(error)):
            message = f"the index {self.path} is damaged ({error})"
            return DamagedError(
                message, hint="run `amem reindex`: it is made anew from the record, which is not touched"
            )
        if code in _WAITING:
            message = f"the index {self.path} was busy for {self.busy_seconds:g} s ({error})"
            return UnavailableError(message, hint="try again, or end the process that holds it")
        if code in {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISUSE}:
            return InternalError(f"the index {self.path} refused a statement ({error})", hint="report this")
        message = f"the index {self.path} cannot be used ({error})"
        return UnavailableError(message, hint=_HINTS.get(code, "check the disk, then try again"))
