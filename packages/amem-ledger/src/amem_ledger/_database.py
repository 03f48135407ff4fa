"""The SQLite file behind the ledger: connections, turns, damage, and errors in amem's words.

One connection per thread; a change stands in the writers' queue (``_lock``) first. The file that was
opened first is the one that this instance goes on with: when another takes its place, calls are
refused until the ledger is opened anew, so that no two files are ever written as one ledger.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from typing import TYPE_CHECKING, Any, Self

from amem_core.errors import InternalError, UnavailableError
from amem_ledger._lock import FileLock
from amem_ledger._schema import VERSION, migrate, refuse_newer, version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from amem_core.errors import AmemError
    from amem_ledger.config import SqliteSettings

_REINDEX = "run `amem reindex`: it sets the damaged file aside and rebuilds the ledger from the log"
_REOPEN = "open the memory again; the ledger then follows the log"
# For writers that do not stand in the queue, such as a person's sqlite3 shell.
_BUSY_SECONDS = 5.0
# A change touches five pages; smaller ones are less to write and to sum.
_PAGE_BYTES = 2048
# 16 MiB, four times SQLite's own: a checkpoint is the one fsync that a change pays for now and then.
_CHECKPOINT_PAGES = 8192
_MESSAGES = {
    sqlite3.SQLITE_BUSY: ("is held by a program outside amem", "end its transaction, then try again"),
    sqlite3.SQLITE_LOCKED: ("is held by a program outside amem", "end its transaction, then try again"),
    sqlite3.SQLITE_FULL: ("cannot grow: no room is left", "make room on the disk, then try again"),
    sqlite3.SQLITE_READONLY: ("may not be written", "give this user write permission on it and its directory"),
    sqlite3.SQLITE_PERM: ("may not be opened", "give this user permission on it and its directory"),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", "give this user permission on it and its directory"),
    sqlite3.SQLITE_IOERR: ("cannot be read or written", "look at the disk, then try again"),
    sqlite3.SQLITE_CORRUPT: ("is damaged", _REINDEX),
    sqlite3.SQLITE_NOTADB: ("is damaged", _REINDEX),
}
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class Session:
    """One thread's connection. ``mutex`` is held while it is used, so that nobody closes it meanwhile."""

    __slots__ = ("__weakref__", "connection", "mutex")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.mutex = threading.Lock()

    def close(self) -> None:
        """Close the connection once nobody uses it."""
        # A file that cannot even be closed was damaged, and whoever used it was told.
        with self.mutex, contextlib.suppress(sqlite3.Error):
            self.connection.close()

    def __del__(self) -> None:
        self.connection.close()


class Database:
    """The file of one ledger; made when first used, so that opening a root costs nothing."""

    def __init__(self, root: str, settings: SqliteSettings) -> None:
        state = os.path.join(root, "state")
        self.path = os.path.join(state, "ledger.sqlite")
        self._directories = (root, os.path.join(state, "locks"))
        self._lock = FileLock(os.path.join(state, "locks", "ledger.lock"), settings.wait)
        self._synchronous = settings.synchronous
        self._process = os.getpid()
        self._local = threading.local()
        self._guard = threading.Lock()
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._identity: tuple[int, int] | None = None
        self._closed = False

    def reading(self) -> Reading:
        """Return a context that gives a connection to read with."""
        return Reading(self)

    def writing(self) -> Writing:
        """Return a context that gives the only writer's connection, outside a transaction.

        A transaction that is still open at its end is rolled back.
        """
        return Writing(self)

    def take_turn(self) -> float:
        """Stand in the writers' queue; return how many seconds that took.

        Raises:
            UnavailableError: the turn did not come in time.
        """
        return self._lock.acquire()

    def end_turn(self) -> None:
        """Let the next writer in."""
        self._lock.release()

    def session(self) -> Session:
        """Return this thread's connection.

        Raises:
            UnavailableError: the ledger is closed, damaged or cannot be opened.
            UnknownFormatError: a newer amem wrote the file.
        """
        session: Session | None = getattr(self._local, "session", None)
        if session is None or self._closed or os.getpid() != self._process:
            return self._open()
        return session

    def check_same(self) -> None:
        """Refuse to go on when another file has taken the place of the one that was opened.

        Raises:
            UnavailableError: it has, or none is there.
        """
        try:
            found = os.stat(self.path)
        except OSError as exc:
            message = f"{self.path} was taken away while it was open"
            raise UnavailableError(message, hint=_REOPEN) from exc
        if (found.st_dev, found.st_ino) != self._identity:
            message = f"{self.path} was replaced while it was open"
            raise UnavailableError(message, hint=_REOPEN)

    def start_anew(self) -> None:
        """Set the file aside as ``ledger.sqlite.damaged``; the next use makes an empty one.

        Raises:
            UnavailableError: the file cannot be renamed.
        """
        self._lock.acquire()
        try:
            self._drop_sessions()
            if self._identity is None or self._is_mine():
                with contextlib.suppress(FileNotFoundError):
                    os.replace(self.path, self.path + ".damaged")
                for suffix in ("-wal", "-shm"):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(self.path + suffix)
            self._identity = None
        except OSError as exc:
            message = f"{self.path} is damaged and cannot be set aside: {exc.strerror}"
            raise UnavailableError(message, hint="give this user write permission on the root's state/") from exc
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close every thread's connection, once nobody uses it. Idempotent."""
        if self._closed or os.getpid() != self._process:
            self._closed = True
            return
        self._closed = True
        self._drop_sessions()
        self._lock.close()

    def _drop_sessions(self) -> None:
        with self._guard:
            sessions = list(self._sessions)
            self._sessions = weakref.WeakSet()
            self._local = threading.local()
        for session in sessions:
            session.close()

    def _is_mine(self) -> bool:
        try:
            self.check_same()
        except UnavailableError:
            return False
        return True

    def _open(self) -> Session:
        if os.getpid() != self._process:
            message = f"the ledger {self.path} was opened by the process that this one was forked from"
            raise UnavailableError(message, hint="open the memory in the process that uses it")
        if self._closed:
            message = f"the ledger {self.path} is closed"
            raise UnavailableError(message, hint="open the memory again")
        self._make_directories()
        self._lock.acquire()
        try:
            session = Session(self._connect())
            with self._guard:
                self._sessions.add(session)
                self._local.session = session
        finally:
            self._lock.release()
        return session

    def _make_directories(self) -> None:
        root, locks = self._directories
        try:
            # Not the root itself: a root that is not there is a mistyped path, or a disk that is not mounted.
            os.stat(root)
            os.makedirs(locks, exist_ok=True)
        except OSError as exc:
            message = f"{exc.filename or locks} cannot be used for the ledger: {exc.strerror}"
            raise UnavailableError(message, hint="make the root's directory, writable for this user") from exc

    def _connect(self) -> sqlite3.Connection:
        if self._identity is not None:
            self.check_same()
        try:
            connection = sqlite3.connect(
                self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
            )
        except sqlite3.Error as exc:
            raise translated(exc, self.path) from exc
        try:
            self._prepare(connection)
        except sqlite3.Error as exc:
            connection.close()
            raise translated(exc, self.path) from exc
        except OSError as exc:
            connection.close()
            message = f"{self.path} was taken away while it was opened"
            raise UnavailableError(message, hint=_REOPEN) from exc
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        found = version(connection)
        refuse_newer(found, self.path)
        if found < VERSION:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                message = f"{self.path} lies on a file system that cannot share memory between processes"
                raise UnavailableError(message, hint="put the root on a local disk")
            migrate(connection, self.path)
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        if self._identity is None:
            made = os.stat(self.path)
            self._identity = (made.st_dev, made.st_ino)


class Reading:
    """A turn to read; driver's errors leave it in amem's words."""

    __slots__ = ("_database", "_session")

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> sqlite3.Connection:
        self._session = self._database.session()
        self._session.mutex.acquire()
        try:
            self._database.check_same()
        except BaseException:
            self._session.mutex.release()
            raise
        return self._session.connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._session.mutex.release()
        if isinstance(error, sqlite3.Error):
            raise translated(error, self._database.path) from error


class Writing:
    """A turn to write. ``waited`` is how many seconds it took to get it."""

    __slots__ = ("_database", "_session", "connection", "waited")

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> Self:
        database = self._database
        session = self._session = database.session()
        self.waited = database.take_turn()
        session.mutex.acquire()
        try:
            database.check_same()
        except BaseException:
            session.mutex.release()
            database.end_turn()
            raise
        self.connection = session.connection
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if error is not None:
                self._undo()
        finally:
            self._session.mutex.release()
            self._database.end_turn()
        if isinstance(error, sqlite3.Error):
            raise translated(error, self._database.path) from error

    def rows(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run one statement to its end, which commits it when no transaction is open; return its rows."""
        return self.connection.execute(sql, values).fetchall()

    def _undo(self) -> None:
        # SQLite has rolled back by itself after a full disk; on a closed or damaged file nothing is left to undo.
        with contextlib.suppress(sqlite3.Error):
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")


def translated(error: sqlite3.Error, path: str) -> AmemError:
    """Return the error that tells of ``error`` in amem's words."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _MESSAGES:
        what, hint = _MESSAGES[code]
        return UnavailableError(f"{path} {what}: {error}", hint=hint, damaged=code in _DAMAGE)
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
        return UnavailableError(f"the ledger {path} was closed during the call", hint="open the memory again")
    foreign = any(words in str(error) for words in ("no such", "already exists", "has no column"))
    if foreign or isinstance(error, sqlite3.IntegrityError):
        # Tables or triggers are missing or changed, or rows contradict each other: the file is not what amem made.
        return UnavailableError(f"{path} is damaged: {error}", hint=_REINDEX, damaged=True)
    message = f"{path}: {error}"
    return InternalError(message, hint="report it, with the version of amem and of SQLite")
