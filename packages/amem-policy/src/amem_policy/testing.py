"""The conformance harness of ``policy.rego``: a directory for each site."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping


@dataclass(frozen=True)
class Place:
    """An empty root and the backend's settings for it."""

    root: str
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Files:
    """The files of one root."""

    def __init__(self, root: str) -> None:
        self._root = root

    def blobs(self) -> Iterator[tuple[str, bytes]]:
        """Yield every file below the root and its bytes."""
        for directory, _, names in os.walk(self._root):
            for name in sorted(names):
                path = os.path.join(directory, name)
                with open(path, "rb") as file:
                    yield os.path.relpath(path, self._root), file.read()

    def write(self, key: str, data: bytes) -> None:
        """Replace or create a file."""
        path = os.path.join(self._root, key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)


class RegoHarness:
    """Nothing to start: the engine runs in this process."""

    def __init__(self) -> None:
        self._scratch: str | None = None

    @contextmanager
    def start(self, scratch: os.PathLike[str]) -> Generator[None]:
        """Keep ``scratch`` for the sites."""
        self._scratch = os.fspath(scratch)
        yield

    def fresh(self) -> Place:
        """Return a new directory as the root."""
        return Place(tempfile.mkdtemp(prefix="policy-", dir=self._scratch))

    def raw(self, site: Place) -> Files:
        """Return access to the root's files."""
        return Files(site.root)


harness = RegoHarness()
