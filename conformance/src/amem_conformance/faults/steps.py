"""Every step by which a process reads or changes what it keeps, made visible so that it can be made to fail.

``install`` puts a wrapper in place of each function of ``os`` that reaches the disk, of ``open``, of
``sqlite3.connect`` and of the opening of a backend, wherever in the process somebody holds it: a
module that took ``os.fsync`` by name at its import is watched like one that looks it up. Nothing is
ever put back, so it is called in a process that the harness has forked for itself.

A wrapper does what it stands for and nothing else until ``watching`` names a watch. What lies outside
the watched directory (a module that is imported, a pipe, a clock) is nobody's step.
"""

from __future__ import annotations

import builtins
import gc
import io
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self

from amem_core.plugins import loader


class Step(NamedTuple):
    """One step.

    Attributes:
        layer: ``os``, ``sql`` or ``port``.
        name: the call, such as ``fsync``, ``COMMIT`` or ``store.publish``.
        place: what it is done to, as far as it says so.
        changes: whether it changes what is kept.
        partly: does the first half of it, for what can be done by half (a write); None for all else.
        paths: of what is done to names, the path and where there is one the new path, with no link followed.
    """

    layer: str
    name: str
    place: str
    changes: bool
    partly: Callable[[], object] | None = None
    paths: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return how a table and a message name it."""
        return f"{self.layer} {self.name} {self.place}".rstrip()


class Watch(Protocol):
    """Is told of each step, and may raise or never return."""

    def before(self, step: Step) -> None:
        """Hear of a step that is about to be done."""
        ...

    def after(self, step: Step) -> None:
        """Hear of a step that has been done; not of one that failed."""
        ...


# What each takes first is a path or a descriptor.
_CHANGING: Final = (
    *("write", "pwrite", "writev", "fsync", "fdatasync", "replace", "rename", "link", "symlink", "unlink", "remove"),
    *("rmdir", "mkdir", "ftruncate", "truncate", "chmod", "fchmod", "sendfile", "copy_file_range"),
)
_READING: Final = ("read", "pread", "listdir", "scandir", "stat", "lstat", "fstat")
_OPENS_TO_CHANGE: Final = os.O_CREAT | os.O_WRONLY | os.O_RDWR | os.O_TRUNC | os.O_APPEND
_WRITING_MODES: Final = frozenset("wax+")
_WRITES: Final = frozenset({"write", "pwrite"})
_TWO_NAMES: Final = frozenset({"replace", "rename", "link"})
_CHANGING_SQL: Final = frozenset(
    {
        *("BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE", "INSERT"),
        *("UPDATE", "DELETE", "REPLACE", "CREATE", "DROP", "ALTER", "VACUUM", "REINDEX", "ANALYZE", "ATTACH", "close"),
    }
)
_CHANGING_PRAGMAS: Final = frozenset({"journal_mode", "user_version", "wal_checkpoint", "incremental_vacuum"})
_CHANGING_CALLS: Final = frozenset(
    {
        *("stage", "publish", "discard", "erase", "save_mark", "append", "apply", "rebuild", "forget", "file", "claim"),
        *("claim_next", "heartbeat", "complete", "release", "relabel", "relayed"),
    }
)


class _State:
    """Who watches, and below which directory. One for the process, as the functions that it replaces are."""

    watch: Watch | None = None
    directory: str = ""
    installed: bool = False
    searched: int = 0
    spaces: ClassVar[list[dict[Any, Any]]] = []
    functions: ClassVar[list[FunctionType]] = []


@contextmanager
def watching(watch: Watch, directory: str) -> Generator[None]:
    """Let ``watch`` hear of every step below ``directory`` while the block runs."""
    install()
    _State.directory = os.path.realpath(directory)
    _State.watch = watch
    try:
        yield
    finally:
        _State.watch = None


def install() -> None:
    """Put the wrappers in place, once in a process."""
    if _State.installed:
        return
    look_around()
    _State.installed = True
    wrappers = {id(real): wrap(real) for real, wrap in _watched()}
    for names in _State.spaces:
        for key, value in list(names.items()):
            if id(value) in wrappers:
                names[key] = wrappers[id(value)]
    for function in _State.functions:
        function.__defaults__ = tuple(wrappers.get(id(value), value) for value in function.__defaults__ or ())
    # Nobody holds it by another name, and what Python itself reads its modules with is left alone.
    watched = _watched_file(io.open)
    for module in (builtins, io):
        setattr(module, "open", watched)  # noqa: B010  (a type checker knows another signature)


def look_around() -> None:
    """Find who holds what will be replaced: before a fork, so that not every child has to search."""
    if _State.searched == len(sys.modules):
        return
    _State.searched = len(sys.modules)
    # The modules of the system itself: what imports modules asks them, and is none of ours.
    systems = [vars(sys.modules[name]) for name in ("posix", "nt", "_sqlite3") if name in sys.modules]
    holders = gc.get_referrers(*(real for real, _ in _watched()))
    spaces: list[dict[Any, Any]] = [holder for holder in holders if type(holder) is dict]
    _State.spaces = [names for names in spaces if not any(names is system for system in systems)]
    defaults: list[tuple[Any, ...]] = [holder for holder in holders if type(holder) is tuple]
    functions = [holder for holder in gc.get_referrers(*defaults) if isinstance(holder, FunctionType)]
    _State.functions = [each for each in functions if any(each.__defaults__ is values for values in defaults)]


def _watched() -> list[tuple[Any, Callable[[Any], Any]]]:
    """Return each function that is replaced, and what makes its wrapper."""
    calls: list[tuple[Any, Callable[[Any], Any]]] = [
        (getattr(os, name), partial(_watched_call, name, changes=changes))
        for names, changes in ((_CHANGING, True), (_READING, False))
        for name in names
        if hasattr(os, name)
    ]
    return [
        *calls,
        (os.open, _watched_open),
        (sqlite3.connect, _watched_connect),
        (loader.open_backend, _watched_backend),
    ]


def run(step: Step, call: Callable[[], Any]) -> Any:
    """Do a step under the eyes of whoever watches."""
    watch = _State.watch
    if watch is None:
        return call()
    watch.before(step)
    result = call()
    watch.after(step)
    return result


# -- os and files -----------------------------------------------------------------------------------


def _watched_call(name: str, real: Callable[..., Any], *, changes: bool) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        place = _place(args, kwargs) if _State.watch is not None else None
        if place is None:
            return real(*args, **kwargs)
        partly = partial(_half_written, real, args) if name in _WRITES else None
        step = Step("os", name, place, changes, partly, _paths(name, args, kwargs) if changes else ())
        return run(step, lambda: real(*args, **kwargs))

    return call


def _half_written(real: Callable[..., Any], args: tuple[Any, ...]) -> object:
    return real(args[0], memoryview(args[1])[: len(args[1]) // 2], *args[2:])


def _paths(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
    """Return the absolute paths of what a call changes: what it names, or what its descriptor is of."""
    found = resolved(args[0], kwargs.get("dir_fd", kwargs.get("src_dir_fd")))
    other = resolved(args[1], kwargs.get("dst_dir_fd")) if name in _TWO_NAMES else ""
    return tuple(path for path in (found, other) if path)


def _watched_open(real: Callable[..., int]) -> Callable[..., int]:
    def call(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        place = _place((path,), kwargs) if _State.watch is not None else None
        if place is None:
            return real(path, flags, *args, **kwargs)
        step = Step("os", "open", place, bool(flags & _OPENS_TO_CHANGE), None, _paths("open", (path,), kwargs))
        opened: int = run(step, lambda: real(path, flags, *args, **kwargs))
        return opened

    return call


def _watched_file(real: Callable[..., Any]) -> Callable[..., Any]:
    def call(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        place = _place((file,), kwargs) if _State.watch is not None else None
        if place is None:
            return real(file, mode, *args, **kwargs)
        changes = not _WRITING_MODES.isdisjoint(mode)
        if isinstance(file, int):  # A descriptor that was opened before: nothing happens on the disk.
            return _File(real(file, mode, *args, **kwargs), place, changes=changes)
        step = Step("os", "open", place, changes, None, _paths("open", (file,), {}))
        return _File(run(step, lambda: real(file, mode, *args, **kwargs)), place, changes=changes)

    return call


class _File:
    """A file object whose reading and writing are steps."""

    def __init__(self, inner: Any, place: str, *, changes: bool) -> None:
        self._inner = inner
        self._place = place
        self._changes = changes

    def write(self, data: Any) -> Any:
        """Write through, so that what the caller wrote is with the system, as after ``os.write``."""

        def partly() -> None:
            self._inner.write(data[: len(data) // 2])
            self._inner.flush()

        def whole() -> Any:
            written = self._inner.write(data)
            self._inner.flush()
            return written

        path = os.path.join(_State.directory, self._place)
        return run(Step("os", "write", self._place, True, partly, (path,)), whole)  # noqa: FBT003  (a field)

    def read(self, *args: Any) -> Any:
        """Read as the file does."""
        return run(Step("os", "read", self._place, False), lambda: self._inner.read(*args))  # noqa: FBT003  (a field)

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        return self._inner.__exit__(*error)

    def __iter__(self) -> Any:
        return iter(self._inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _place(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Return what a call is about, below the watched directory; None for what lies elsewhere."""
    found = resolved(args[0] if args else kwargs.get("path", "."), kwargs.get("dir_fd", kwargs.get("src_dir_fd")))
    inside = _State.directory.rstrip(os.sep) + os.sep
    if found is None or not (found + os.sep).startswith(inside):
        return None
    return found[len(inside) :] or "."


def resolved(what: Any, directory: int | None) -> str | None:
    """Return the path of a name or descriptor, None when the system does not say."""
    if isinstance(what, int):
        return _path_of(what)
    path = os.fsdecode(what)
    if os.path.isabs(path):
        return path
    above = os.getcwd() if directory is None else _path_of(directory)
    return None if above is None else os.path.join(above, path)


_readlink = os.readlink

if sys.platform == "darwin":
    import fcntl

    def _path_of(fd: int) -> str | None:
        try:
            return os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, b"\0" * 1024).rstrip(b"\0"))
        except OSError:
            return None
else:

    def _path_of(fd: int) -> str | None:
        try:
            return _readlink(f"/proc/self/fd/{fd}").removesuffix(" (deleted)")
        except OSError:
            return None


# -- SQLite -----------------------------------------------------------------------------------------


def _watched_connect(real: Callable[..., Any]) -> Callable[..., Any]:
    def call(database: Any, *args: Any, **kwargs: Any) -> Any:
        place = _place((database,), {}) if _State.watch is not None else None
        if place is None or args or "factory" in kwargs:
            return real(database, *args, **kwargs)
        step = Step("sql", "connect", place, changes=False)
        connection = run(step, lambda: real(database, *args, factory=_Connection, **kwargs))
        connection.place = place
        return connection

    return call


def _verb(sql: str) -> tuple[str, bool]:
    """Return a statement's first words and whether it changes anything."""
    words = sql.split(None, 2)
    verb = words[0].upper().rstrip(";") if words else ""
    if verb == "BEGIN" and len(words) > 1:
        verb = f"BEGIN {words[1].upper().rstrip(';')}"
    if verb == "PRAGMA":
        name = re.split(r"\W", words[1], maxsplit=1)[0]
        return f"PRAGMA {name}", name in _CHANGING_PRAGMAS
    if verb == "WITH":
        return verb, any(f"{word} " in sql.upper() for word in ("INSERT", "UPDATE", "DELETE"))
    return verb, verb in _CHANGING_SQL


class _Cursor(sqlite3.Cursor):
    """A cursor whose statements are steps. One that gives rows has been done when they have been fetched."""

    _open: Step | None = None

    def execute(self, sql: str, *args: Any) -> Any:
        """Run a statement."""
        return self._stepped(sql, lambda: super(_Cursor, self).execute(sql, *args))

    def executemany(self, sql: str, *args: Any) -> Any:
        """Run a statement many times."""
        return self._stepped(sql, lambda: super(_Cursor, self).executemany(sql, *args))

    def fetchall(self) -> list[Any]:
        """Fetch what is left, which ends the statement."""
        rows = super().fetchall()
        step, self._open = self._open, None
        if step is not None and _State.watch is not None:
            _State.watch.after(step)
        return rows

    def _stepped(self, sql: str, call: Callable[[], Any]) -> Any:
        watch = _State.watch
        if watch is None:
            return call()
        name, changes = _verb(sql)
        step = Step("sql", name, getattr(self.connection, "place", ""), changes)
        watch.before(step)
        result = call()
        if self.description is None:
            watch.after(step)
        else:
            self._open = step
        return result


class _Connection(sqlite3.Connection):
    """A connection whose statements are steps, and its end, at which SQLite may move its log into the file."""

    place = ""

    def cursor(self, factory: Any = _Cursor) -> Any:
        """Return a cursor that is watched."""
        return super().cursor(factory)

    def execute(self, *args: Any) -> Any:
        """Run a statement on a cursor that is watched, which the connection's own way to one is not."""
        return self.cursor().execute(*args)

    def executemany(self, *args: Any) -> Any:
        """Run a statement many times."""
        return self.cursor().executemany(*args)

    def executescript(self, script: str) -> Any:
        """Run statements, as one step."""
        return run(
            Step("sql", "script", self.place, changes=True), lambda: super(_Connection, self).executescript(script)
        )

    def commit(self) -> None:
        """Commit."""
        run(Step("sql", "COMMIT", self.place, changes=True), super().commit)

    def close(self) -> None:
        """Close."""
        run(Step("sql", "close", self.place, changes=True), super().close)


# -- ports ------------------------------------------------------------------------------------------


def _watched_backend(real: Callable[..., Any]) -> Callable[..., Any]:
    def call(spec: Any, *args: Any, **kwargs: Any) -> Any:
        opened = real(spec, *args, **kwargs)
        return _Port(opened, spec.port) if spec.port in {"store", "log", "index", "ledger"} else opened

    return call


class _Port:
    """A port whose calls are steps, whatever its backend stands on."""

    def __init__(self, inner: Any, port: str) -> None:
        self._inner = inner
        self._port = port

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if _State.watch is None or not callable(found) or name == "close":
            return found
        step = Step("port", f"{self._port}.{name}", "", changes=name in _CHANGING_CALLS)

        def call(*args: Any, **kwargs: Any) -> Any:
            if step.name == "log.writer":
                return _Writing(found(*args, **kwargs))
            return run(step, lambda: found(*args, **kwargs))

        return call


class _Writing:
    """The context of a log's only writer, whose beginning and whose appends are steps."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._writer: Any = None

    def __enter__(self) -> Self:
        # Only before it: between the end of an ``__enter__`` and its block nothing comes in Python either.
        if _State.watch is not None:
            _State.watch.before(Step("port", "log.writer", "begins", changes=True))
        self._writer = self._manager.__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        return self._manager.__exit__(*error)

    @property
    def head(self) -> int:
        """The number of the last event."""
        return int(self._writer.head)

    def append(self, events: Any) -> Any:
        """Append as the writer does."""
        step = Step("port", "log.append", f"of {len(events)}", changes=True)
        return run(step, lambda: self._writer.append(events))
