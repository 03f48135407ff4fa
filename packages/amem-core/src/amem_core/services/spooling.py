"""Bringing what a log tells of many ids into the order of the ids, without holding it all.

The record, the index and the ledger are listed by id, and the log is in the order of time. What is
compared with a log is sorted here first, in temporary files as soon as it is more than a few megabytes.
"""

from __future__ import annotations

import heapq
import tempfile
from itertools import groupby
from typing import IO, TYPE_CHECKING, Self

from amem_core.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_BYTES = 4 << 20
# So few files are open at a time.
_MOST_RUNS = 32
_DIGITS = 16


class Spool:
    """Payloads under keys, given back key by key in order, those of a key by their number.

    A key and a payload hold no line feed and no NUL. Holds some megabytes, however much is added.
    """

    def __init__(self, *, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lines: list[bytes] = []
        self._size = 0
        self._runs: list[IO[bytes]] = []

    def add(self, key: str, number: int, payload: bytes) -> None:
        """Keep ``payload`` as the ``number``-th (from 0) of ``key``.

        Raises:
            UnavailableError: there is no room for temporary files.
        """
        line = b"%s\0%0*d\0%s\n" % (key.encode(), _DIGITS, number, payload)
        self._lines.append(line)
        self._size += len(line)
        if self._size >= self._most_bytes:
            self._spill()

    def groups(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield each key with its payloads. What is added meanwhile is not in it. One at a time is under way."""
        for key, lines in groupby(self._sorted(), lambda line: line[: line.index(b"\0")]):
            begin = len(key) + _DIGITS + 2
            yield key.decode(), [line[begin:-1] for line in lines]

    def close(self) -> None:
        """Let go of the temporary files."""
        for run in self._runs:
            run.close()
        self._runs = []
        self._lines = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _sorted(self) -> Iterator[bytes]:
        for run in self._runs:
            run.seek(0)
        return heapq.merge(*self._runs, sorted(self._lines))

    def _spill(self) -> None:
        """Put what is held into a file; many files become one."""
        try:
            if len(self._runs) < _MOST_RUNS:
                self._runs.append(_written(iter(sorted(self._lines))))
            else:
                merged = _written(self._sorted())
                for run in self._runs:
                    run.close()
                self._runs = [merged]
        except OSError as exc:
            message = f"the log cannot be sorted in {tempfile.gettempdir()}: {exc.strerror}"
            raise UnavailableError(message, hint="make room there; nothing was changed") from exc
        self._lines = []
        self._size = 0


def _written(lines: Iterator[bytes]) -> IO[bytes]:
    run = tempfile.TemporaryFile()  # noqa: SIM115  (it lives as long as the spool)
    try:
        run.writelines(lines)
        run.flush()
    except BaseException:
        run.close()
        raise
    return run
