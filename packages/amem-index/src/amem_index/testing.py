"""How the conformance suite reaches the backends of this distribution."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from amem_conformance.harness import Site

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


class SqliteFiles:
    """The bytes of the index's files; a key is a file's name."""

    def __init__(self, root: str) -> None:
        self._directory = Path(root, "state")

    def blobs(self) -> Iterator[tuple[str, bytes]]:
        """Yield each file and its bytes."""
        for path in sorted(self._directory.glob("index.*")):
            yield path.name, path.read_bytes()

    def write(self, key: str, data: bytes) -> None:
        """Replace a file's bytes in place."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with open(self._directory / key, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


class SqliteHarness:
    """A fresh directory is an empty site."""

    def __init__(self) -> None:
        self._scratch: Path | None = None

    @contextmanager
    def start(self, scratch: Path) -> Generator[None]:
        """Keep ``scratch`` for the sites."""
        self._scratch = scratch
        yield

    def fresh(self) -> Site:
        """Return a new directory."""
        return Site(tempfile.mkdtemp(prefix="index-", dir=self._scratch))

    def raw(self, site: Site) -> SqliteFiles:
        """Return access to the index's files."""
        return SqliteFiles(site.root)


harness = SqliteHarness()
