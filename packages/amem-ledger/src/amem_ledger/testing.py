"""How the conformance suite reaches this distribution's backends."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping


@dataclass(frozen=True)
class LedgerSite:
    """A root directory and the settings for it."""

    root: str
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


class LedgerFile:
    """The bytes of ``state/ledger.sqlite`` and of what SQLite keeps beside it."""

    def __init__(self, root: str) -> None:
        self._state = Path(root, "state")

    def blobs(self) -> Iterator[tuple[str, bytes]]:
        """Yield each file's name, from the root, and its bytes."""
        for path in sorted(self._state.glob("ledger.sqlite*")):
            yield f"state/{path.name}", path.read_bytes()

    def write(self, key: str, data: bytes) -> None:
        """Replace or create a file."""
        path = self._state.parent / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class SqliteHarness:
    """Gives each test a directory of its own."""

    def __init__(self) -> None:
        self._scratch: str | None = None

    @contextmanager
    def start(self, scratch: Path) -> Generator[None]:
        """Keep ``scratch`` for the sites."""
        self._scratch = os.fspath(scratch)
        yield

    def fresh(self) -> LedgerSite:
        """Return a new directory as the root."""
        return LedgerSite(tempfile.mkdtemp(prefix="ledger-", dir=self._scratch))

    def raw(self, site: LedgerSite) -> LedgerFile:
        """Return access to the file behind the port's back."""
        return LedgerFile(site.root)


harness = SqliteHarness()
