"""How the conformance suite reaches the embedded store and log. It depends on no test framework.

The objects have the shapes that ``amem_conformance.harness`` describes, without importing it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class DirectorySite:
    """A root directory, and settings of which there are none."""

    root: str
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


class DirectoryRaw:
    """The files below a root, behind the port's back. Keys are paths relative to the root."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def blobs(self) -> Iterator[tuple[str, bytes]]:
        """Yield every file's key and bytes, by key."""
        for path in sorted(self._root.rglob("*")):
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(self._root).as_posix(), path.read_bytes()

    def write(self, key: str, data: bytes) -> None:
        """Replace or create a file."""
        path = self._root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class DirectoryHarness:
    """Gives every test a directory of its own as its root."""

    def __init__(self) -> None:
        self._scratch: str | None = None

    @contextmanager
    def start(self, scratch: Path) -> Generator[None]:
        """Make the sites below ``scratch``."""
        self._scratch = os.fspath(scratch)
        yield

    def fresh(self) -> DirectorySite:
        """Return an empty root."""
        return DirectorySite(tempfile.mkdtemp(prefix="root-", dir=self._scratch))

    def raw(self, site: DirectorySite) -> DirectoryRaw:
        """Return access to the files below the site's root."""
        return DirectoryRaw(site.root)


def files_harness() -> DirectoryHarness:
    """Return the harness of the store ``files``."""
    return DirectoryHarness()


def jsonl_harness() -> DirectoryHarness:
    """Return the harness of the log ``jsonl``."""
    return DirectoryHarness()
