"""A backend whose server is not running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from amem_conformance.loading import MemoryHarness
from amem_core.errors import UnavailableError


class AbsentHarness(MemoryHarness):
    @contextmanager
    def start(self, scratch: Path) -> Iterator[None]:
        message = "no server at localhost:1"
        raise UnavailableError(message, hint="start one")
        yield


harness = AbsentHarness()
