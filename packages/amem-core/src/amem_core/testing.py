"""What makes a test exact: a clock that moves when told, ids that repeat, and directories as sites of backends.

Needs no test framework. A backend's author takes ``DirectoryHarness`` as the conformance harness of
whatever keeps its bytes in files below the root.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amem_core.system import encode

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping


class FrozenClock:
    """Stands still until it is moved; ``now`` is aware and in UTC."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        """Return the time at which the clock stands."""
        return self._now

    def advance(self, *, seconds: float = 0, hours: float = 0, days: float = 0) -> datetime:
        """Move by so much, back when negative; return the new time."""
        self._now += timedelta(seconds=seconds, hours=hours, days=days)
        return self._now


class CountingIds:
    """Ids that count up from 1 and sort in the order in which they were made."""

    def __init__(self) -> None:
        self._count = 0

    def new(self, prefix: str, at: datetime) -> str:  # noqa: ARG002  (the port's signature)
        """Return ``prefix`` and the next number in 26 characters."""
        self._count += 1
        return prefix + encode(self._count)


@dataclass(frozen=True)
class Site:
    """One empty place for one test: a root directory and the backend's settings for it."""

    root: str
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


class DirectoryRaw:
    """The files below a root, behind the port's back; a key is a path from the root."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def blobs(self) -> Iterator[tuple[str, bytes]]:
        """Yield every file's key and bytes, by key."""
        for path in sorted(self._root.rglob("*")):
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(self._root).as_posix(), path.read_bytes()

    def write(self, key: str, data: bytes) -> None:
        """Replace or create a file, durably."""
        path = self._root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


class DirectoryHarness:
    """Gives every test a directory of its own as its root."""

    def __init__(self) -> None:
        self._scratch: str | None = None

    @contextmanager
    def start(self, scratch: str | os.PathLike[str]) -> Generator[None]:
        """Make the sites below ``scratch``."""
        self._scratch = os.fspath(scratch)
        yield

    def fresh(self) -> Site:
        """Return an empty root."""
        return Site(tempfile.mkdtemp(prefix="root-", dir=self._scratch))

    def raw(self, site: Site) -> DirectoryRaw | None:
        """Return access to the files below the site's root."""
        return DirectoryRaw(site.root)
