"""The event log as one file of JSON lines for each domain, which ``tail`` and ``grep`` read as well.

``state/log/<domain>.jsonl`` holds the events, ``state/locks/<domain>.lock`` is held by the domain's
writer. Appending is one write and one fdatasync for all events that are given together. The file
only ever grows, save for a tail that nobody was told was written.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, NoReturn

from amem_core.domain.names import check_domain
from amem_core.errors import AmemError, CorruptionError, InvalidError, UnavailableError
from amem_core.format.events import GENESIS
from amem_core.ports.log import LogCapabilities, LogWriter
from amem_store import _disk, _lines, _lock

if TYPE_CHECKING:
    from amem_core.domain.events import Event, NewEvent
    from amem_core.ports.log import Log
    from amem_store.config import JsonlSettings

_CAPABILITIES: Final = LogCapabilities(multi_process=True)
_SUFFIX: Final = ".jsonl"
_READ: Final = _disk.READ
_APPEND: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW

_Stamp = tuple[int, int, int]
_Start = tuple[int, str | None]
_Sync = Callable[[int], None]


def open_log(root: str, settings: JsonlSettings) -> Log:  # noqa: ARG001  (the factory's signature)
    """Open the log in ``root``, an existing directory.

    Raises:
        UnavailableError: ``root`` is not there, or ``state/log/`` cannot be made in it.
    """
    return JsonlLog(root)


class JsonlLog:
    """A log in the directory ``state/log`` of ``root``. It holds no file open between calls."""

    def __init__(self, root: str, *, fdatasync: _Sync = _disk.fdatasync) -> None:
        state = os.path.join(os.path.abspath(root), "state")
        self._directory = os.path.join(state, "log")
        self.locks = os.path.join(state, "locks")
        self.sync = fdatasync
        self._busy: dict[str, threading.Lock] = {}
        # Immutable values that are replaced whole, so that threads need no lock to share them.
        self._tails: dict[str, tuple[_Stamp, _lines.Tail]] = {}
        self._heads: dict[str, tuple[_Stamp, int]] = {}
        self._reached: dict[str, tuple[int, int, int]] = {}
        with _disk.translated("make", self._directory):
            if not os.path.isdir(self._directory) or not os.path.isdir(self.locks):
                _make_all(state, self.locks, self._directory)

    @property
    def capabilities(self) -> LogCapabilities:
        """Several processes may share the log."""
        return _CAPABILITIES

    def writer(self, domain: str, *, wait: float = 30.0) -> AbstractContextManager[LogWriter]:
        """Become the domain's only writer, across threads and processes, and repair a torn tail.

        Raises:
            UnavailableError: another writer did not end within ``wait`` seconds, or the file cannot be opened.
            CorruptionError: the last event is damaged; nothing was changed.
        """
        path = self._path(domain)
        busy = self._busy.get(domain) or self._busy.setdefault(domain, threading.Lock())
        return _Writer(self, domain, path, busy, wait)

    def head(self, domain: str) -> int:
        """Return the sequence number of the last event, 0 for none, from the file's last lines.

        Raises:
            CorruptionError: the last line is no event; whether it follows from the one before is checked by
                whoever reads so far and by the next writer.
            UnavailableError: the log cannot be read.
        """
        path = self._path(domain)
        with _disk.translated("read", path):
            fd = self._open(path)
            if fd is None:
                return 0
            try:
                stamp = _stamp(fd)
                known = self._heads.get(domain)
                if known is None or known[0] != stamp:
                    known = self._heads[domain] = (stamp, _lines.find_seq(fd, stamp[1], domain))
                return known[1]
            finally:
                os.close(fd)

    def read(self, domain: str, after: int = 0) -> Iterator[Event]:
        """Yield the events with a sequence number above ``after``, in order. A torn tail is not yielded.

        What is appended after the first event was asked for may be missing.

        Raises:
            CorruptionError: an event is damaged, missing or out of order. The message names the line;
                ``resume_after`` in the context is the ``after`` from which what follows can be read,
                None when nothing does.
            UnavailableError: the log cannot be read.
        """
        return self._read(domain, self._path(domain), max(0, after))

    def torn(self, domain: str) -> int:
        """Return how many bytes stand behind the last whole group of events, 0 for none.

        Raises:
            UnavailableError: the log cannot be read.
        """
        path = self._path(domain)
        with _disk.translated("read", path):
            fd = self._open(path)
            if fd is None:
                return 0
            try:
                size = os.fstat(fd).st_size
                return size - _lines.find_end(fd, size)
            finally:
                os.close(fd)

    def domains(self) -> list[str]:
        """Return the domains that have at least one event, sorted.

        A domain whose log is damaged or cannot be read is among them, so that whoever reads it gets the error.
        """
        with _disk.translated("list", self._directory):
            names = [name.removesuffix(_SUFFIX) for name in os.listdir(self._directory) if name.endswith(_SUFFIX)]
        return sorted(name for name in names if self._has_events(name))

    def close(self) -> None:
        """Nothing is held. Idempotent."""

    def _path(self, domain: str) -> str:
        return f"{self._directory}/{check_domain(domain)}{_SUFFIX}"

    def _open(self, path: str) -> int | None:
        """Open a log for reading, None when it has not begun; the directory itself must be there."""
        try:
            return os.open(path, _READ)
        except FileNotFoundError:
            os.stat(self._directory)
            return None

    def _has_events(self, domain: str) -> bool:
        try:
            return self.head(domain) > 0
        except InvalidError:
            return False  # Somebody's file: its name is no domain's.
        except AmemError:
            return True

    def tail(self, fd: int, domain: str) -> _lines.Tail:
        """Return where the open file ends, read again only when the file has changed."""
        stamp = _stamp(fd)
        known = self._tails.get(domain)
        if known is not None and known[0] == stamp:
            return known[1]
        tail = _lines.find_tail(fd, stamp[1], domain)
        self._tails[domain] = (stamp, tail)
        return tail

    def remember(self, fd: int, domain: str, tail: _lines.Tail) -> None:
        """Take note of where the open file ends now; only its writer knows."""
        try:
            self._tails[domain] = (_stamp(fd), tail)
        except OSError:
            # What was appended is durable: the next writer reads the end again.
            self._tails.pop(domain, None)

    def _read(self, domain: str, path: str, after: int) -> Iterator[Event]:
        with _disk.translated("read", path):
            fd = self._open(path)
            if fd is None:
                return
            try:
                file = _File(domain, path, fd)
                start = (0, GENESIS) if not after else self._find_after(file, after)
                if start is not None:
                    yield from self._events(file, after, start)
            finally:
                os.close(fd)

    def _find_after(self, file: _File, after: int) -> _Start | None:
        known = self._reached.get(file.domain)
        begin = 0
        if known is not None and known[0] == file.inode and known[1] <= after and known[2] <= file.size:
            begin = known[2] if os.pread(file.fd, 1, known[2] - 1) == b"\n" else 0
        return _lines.find_after(file.fd, file.size, file.domain, after, begin)

    def _events(self, file: _File, after: int, start: _Start) -> Iterator[Event]:
        begin, previous = start
        group: list[Event] = []
        for offset, line in _lines.forward(file.fd, begin, file.size):
            event = _lines.parse_or_none(line, file.domain)
            in_place = event is not None and event.seq == after + 1
            if event is None or not in_place or not (previous is None or _lines.follows(event, previous)):
                yield from group
                _raise_damage(file, after + 1, offset, event)
            after, previous = event.seq, event.chain
            group.append(event)
            if not line.startswith(_lines.MORE):
                yield from group
                group.clear()
                self._reached[file.domain] = (file.inode, after, offset + len(line) + 1)


class _File:
    """A log's file as it was when a reader or writer opened it."""

    __slots__ = ("domain", "fd", "inode", "path", "size")

    def __init__(self, domain: str, path: str, fd: int) -> None:
        self.domain = domain
        self.path = path
        self.fd = fd
        self.inode, self.size, _ = _stamp(fd)


class _Writer:
    """The one writer of a domain, from the beginning of its context to the end.

    A class and not a generator, and no helper around each call: this is on the path of every write.
    """

    def __init__(self, log: JsonlLog, domain: str, path: str, busy: threading.Lock, wait: float) -> None:
        self._log = log
        self._domain = domain
        self._path = path
        self._lock_path = f"{log.locks}/{domain}.lock"
        self._busy = busy
        self._wait = wait
        self._lock = -1
        self._fd = -1
        self._tail = _lines.Tail(0, GENESIS, 0)
        self._closed = "its writer has not begun or has ended"

    def __enter__(self) -> LogWriter:
        until = time.monotonic() + self._wait
        if not self._busy.acquire(blocking=self._wait > 0, timeout=self._wait if self._wait > 0 else -1):
            raise _held(self._domain, self._wait)
        try:
            self._open(until)
        except BaseException:
            self._release()
            raise
        self._closed = ""
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._closed = "its writer has ended"
        self._release()

    @property
    def head(self) -> int:
        """The sequence number of the last event; 0 for none."""
        return self._tail.seq

    def append(self, events: Sequence[NewEvent]) -> list[Event]:
        """Append the events together; durable on return, all of them or none.

        Raises:
            InvalidError: the writer's context has ended, or an event holds what cannot be logged.
            UnavailableError: the log cannot be written. Nothing was appended.
        """
        if self._closed:
            message = f"the log of {self._domain!r} cannot be written: {self._closed}"
            raise InvalidError(message, hint="become the writer again, then append")
        if not events:
            return []
        seq, previous = self._tail.seq, self._tail.chain
        placed: list[Event] = []
        lines: list[bytes] = []
        for event in events:
            seq += 1
            linked, line = _lines.place(previous, self._domain, seq, event)
            previous = linked.chain
            placed.append(linked)
            lines += (_lines.MORE, line)
        del lines[-2]  # The last line closes the group.
        data = b"".join(lines)
        self._write(data)
        self._tail = _lines.Tail(seq, previous, self._tail.end + len(data))
        self._log.remember(self._fd, self._domain, self._tail)
        return placed

    def _open(self, until: float) -> None:
        """Take the lock between processes, open the file and repair its end."""
        try:
            lock = _lock.acquire(self._lock_path, until - time.monotonic())
        except OSError as exc:
            raise _disk.unavailable(exc, "lock", self._lock_path) from exc
        if lock is None:
            raise _held(self._domain, self._wait)
        self._lock = lock
        try:
            self._fd = os.open(self._path, _APPEND, _disk.OWNER_FILE)
            self._tail = self._log.tail(self._fd, self._domain)
            if self._tail.torn:
                self._repair()
        except OSError as exc:
            raise _disk.unavailable(exc, "write", self._path) from exc

    def _repair(self) -> None:
        """Complete or cut off what a crash left behind the last event."""
        tail = self._tail
        if tail.whole is not None:
            _disk.write_all(self._fd, b"\n")
            tail = _lines.Tail(tail.whole.seq, tail.whole.chain, os.fstat(self._fd).st_size)
        else:
            # An event is acknowledged when its newline and its group are durable; this was not.
            os.ftruncate(self._fd, tail.end)
            tail = _lines.Tail(tail.seq, tail.chain, tail.end)
        self._log.sync(self._fd)
        self._log.remember(self._fd, self._domain, tail)
        self._tail = tail

    def _release(self) -> None:
        try:
            if self._fd >= 0:
                os.close(self._fd)
            if self._lock >= 0:
                _lock.release(self._lock)
        except OSError as exc:
            raise _disk.unavailable(exc, "close", self._path) from exc
        finally:
            self._fd = self._lock = -1
            self._busy.release()

    def _write(self, data: bytes) -> None:
        try:
            _disk.write_all(self._fd, data)
            self._log.sync(self._fd)
            if not self._tail.end:  # The file's own name is as new as its first event.
                _disk.sync_directory(os.path.dirname(self._path), self._log.sync)
        except OSError as exc:
            self._take_back()
            raise _disk.unavailable(exc, "append to", self._path) from exc
        except BaseException:
            self._take_back()
            raise

    def _take_back(self) -> None:
        """Cut off what a failed append left. Where that fails too, nothing more is appended behind it."""
        try:
            os.ftruncate(self._fd, self._tail.end)
            self._log.sync(self._fd)
        except OSError:
            self._closed = "a failed append could not be taken back"


def _stamp(fd: int) -> _Stamp:
    found = os.fstat(fd)
    return found.st_ino, found.st_size, found.st_mtime_ns


def _make_all(state: str, locks: str, directory: str) -> None:
    for path in (state, locks, directory):
        if _disk.make_directory(path):
            _disk.sync_directory(os.path.dirname(path), _disk.fsync)


def _held(domain: str, wait: float) -> UnavailableError:
    message = f"another writer of {domain!r} did not end within {wait:g} s"
    return UnavailableError(message, hint="repeat when the other session or command has ended", domain=domain)


def _raise_damage(file: _File, expected: int, offset: int, found: Event | None) -> NoReturn:
    """Raise the alarm for the line at ``offset``, which holds ``found`` where event ``expected`` should be."""
    if found is None:
        fault = "the line is damaged"
    elif found.seq == expected:
        fault = "it does not follow from the event before it: one of the two was changed"
    else:
        fault = f"event {found.seq} is in its place"
    # A later event is the next to read; one that does not follow is passed over, so that a reader gets on.
    least = expected + 1 if found is not None and found.seq == expected else expected
    lines = (_lines.parse_or_none(line, file.domain) for _, line in _lines.forward(file.fd, offset, file.size))
    resume = next((event.seq - 1 for event in lines if event is not None and event.seq >= least), None)
    number = _lines.count_lines(file.fd, offset) + 1
    message = f"{_disk.shown(file.path)}, line {number}, byte {offset}: event {expected} cannot be read: {fault}"
    rest = "nothing after it can be read" if resume is None else f"what follows can be read from event {resume + 1} on"
    hint = f"{rest}; nothing was changed; restore the line from a copy"
    raise CorruptionError(message, hint=hint, domain=file.domain, seq=expected, line=number, resume_after=resume)
