"""The event log as one file of JSON lines for each domain, which ``tail`` and ``grep`` read as well.

``state/log/<domain>.jsonl`` holds the events, ``state/locks/<domain>.lock`` is held by the domain's
writer. Appending is one write and one fdatasync for all events that are given together. The file
only ever grows, save for a tail that nobody was told was written.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

from amem_core.domain.names import check_domain
from amem_core.errors import AmemError, CorruptionError, InvalidError, UnavailableError
from amem_core.format.events import GENESIS, encode_event, link
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
_Remember = Callable[[_lines.Tail], None]


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
        self._locks = os.path.join(state, "locks")
        self._fdatasync = fdatasync
        self._busy: dict[str, threading.Lock] = {}
        # Immutable values that are replaced whole, so that threads need no lock to share them.
        self._tails: dict[str, tuple[_Stamp, _lines.Tail]] = {}
        self._reached: dict[str, tuple[int, int, int]] = {}
        with _disk.translated("make", self._directory):
            if not os.path.isdir(self._directory) or not os.path.isdir(self._locks):
                _make_all(state, self._locks, self._directory)

    @property
    def capabilities(self) -> LogCapabilities:
        """Several processes may share the log."""
        return _CAPABILITIES

    @contextmanager
    def writer(self, domain: str, *, wait: float = 30.0) -> Generator[LogWriter]:
        """Become the domain's only writer, across threads and processes, and repair a torn tail.

        Raises:
            UnavailableError: another writer did not end within ``wait`` seconds, or the file cannot be opened.
            CorruptionError: the last event is damaged; nothing was changed.
        """
        path = self._path(domain)
        until = time.monotonic() + wait
        busy = self._busy.setdefault(domain, threading.Lock())
        if not (busy.acquire(timeout=wait) if wait > 0 else busy.acquire(blocking=False)):
            raise _held(domain, wait)
        try:
            lock_path = os.path.join(self._locks, f"{domain}.lock")
            with _disk.translated("lock", lock_path):
                lock = _lock.acquire(lock_path, until - time.monotonic())
            if lock is None:
                raise _held(domain, wait)
            try:
                with _disk.translated("write", path):
                    fd = os.open(path, _APPEND, _disk.OWNER_FILE)
                try:
                    with _disk.translated("repair", path):
                        tail = self._repaired(fd, domain)
                    writer = _Writer(
                        _File(domain, path, fd), tail, self._fdatasync, lambda tail: self._remember(fd, domain, tail)
                    )
                    try:
                        yield writer
                    finally:
                        writer.end()
                finally:
                    os.close(fd)
            finally:
                _lock.release(lock)
        finally:
            busy.release()

    def head(self, domain: str) -> int:
        """Return the sequence number of the last event, 0 for none, from the file's last lines.

        Raises:
            CorruptionError: the last event is damaged.
            UnavailableError: the log cannot be read.
        """
        path = self._path(domain)
        with _disk.translated("read", path):
            fd = self._open(path)
            if fd is None:
                return 0
            try:
                return self._tail(fd, domain).seq
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
        return os.path.join(self._directory, check_domain(domain) + _SUFFIX)

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

    def _tail(self, fd: int, domain: str) -> _lines.Tail:
        stamp = _stamp(fd)
        known = self._tails.get(domain)
        if known is not None and known[0] == stamp:
            return known[1]
        tail = _lines.find_tail(fd, stamp[1], domain)
        self._tails[domain] = (stamp, tail)
        return tail

    def _remember(self, fd: int, domain: str, tail: _lines.Tail) -> None:
        self._tails[domain] = (_stamp(fd), tail)

    def _repaired(self, fd: int, domain: str) -> _lines.Tail:
        """Return where to append, after completing or cutting off what a crash left behind the last event."""
        tail = self._tail(fd, domain)
        if not tail.torn:
            return tail
        if tail.whole is not None:
            _disk.write_all(fd, b"\n")
            tail = _lines.Tail(tail.whole.seq, tail.whole.chain, os.fstat(fd).st_size)
        else:
            # Each event is acknowledged after its newline and its group are durable; this one was not.
            os.ftruncate(fd, tail.end)
            tail = _lines.Tail(tail.seq, tail.chain, tail.end)
        self._fdatasync(fd)
        self._remember(fd, domain, tail)
        return tail

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
    """The one writer of a domain, until its context ends."""

    def __init__(self, file: _File, tail: _lines.Tail, sync: _Sync, remember: _Remember) -> None:
        self._domain = file.domain
        self._path = file.path
        self._fd = file.fd
        self._tail = tail
        self._sync = sync
        self._remember = remember
        self._closed = ""

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
        placed: list[Event] = []
        seq, previous = self._tail.seq, self._tail.chain
        for event in events:
            seq += 1
            placed.append(link(previous, domain=self._domain, seq=seq, event=event))
            previous = placed[-1].chain
        lines = [encode_event(event) for event in placed]
        data = b"".join([_lines.MORE + line for line in lines[:-1]] + lines[-1:])
        self._write(data)
        self._tail = _lines.Tail(seq, previous, self._tail.end + len(data))
        self._remember(self._tail)
        return placed

    def end(self) -> None:
        """Refuse what is appended from now on."""
        self._closed = "its writer has ended"

    def _write(self, data: bytes) -> None:
        try:
            _disk.write_all(self._fd, data)
            self._sync(self._fd)
            if not self._tail.end:  # The file's own name is as new as its first event.
                _disk.sync_directory(os.path.dirname(self._path), self._sync)
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
            self._sync(self._fd)
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
