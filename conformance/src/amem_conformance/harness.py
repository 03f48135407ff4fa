"""What the author of a backend writes once, so that the suite can open and reopen it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from amem_core.ports.tools import Tools
from amem_core.testing import Site

__all__ = ["Harness", "Opened", "OpeningHarness", "Raw", "ServedHarness", "Site", "ToolsHarness"]


class Opened(Protocol):
    """What every port has: what it can promise, and an end."""

    @property
    def capabilities(self) -> object:
        """The port's flags, as configured."""
        ...

    def close(self) -> None:
        """Release what is held. Idempotent."""
        ...


class Raw(Protocol):
    """The stored bytes behind the port's back."""

    def blobs(self) -> Iterator[tuple[str, bytes]]:
        """Yield every stored key or file and its bytes."""
        ...

    def write(self, key: str, data: bytes) -> None:
        """Replace or create stored bytes, as damage or a hand edit would."""
        ...


class Harness(Protocol):
    """How the suite reaches a backend. Registered as an entry point of group ``amem.conformance``.

    The entry point's name is the backend's key, such as ``index.sqlite``, and its value is an
    object of this shape or a callable that returns one.
    """

    def start(self, scratch: Path) -> AbstractContextManager[None]:
        """Start what all tests share (a server, a bucket) and stop it at the end."""
        ...

    def fresh(self) -> Site:
        """Return an isolated, empty site."""
        ...

    def raw(self, site: Site) -> Raw | None:
        """Return access to the stored bytes, or None when the backend keeps none."""
        ...


class OpeningHarness(Harness, Protocol):
    """A harness that opens its backend itself, for one that no distribution registers (a double, an experiment)."""

    def open(self, site: Site) -> Opened:
        """Return a newly opened port on ``site``."""
        ...


class ServedHarness(Harness, Protocol):
    """The harness of a backend that talks to a service which the suite can start, see ``amem_conformance.services``."""

    service: str
    """The name of the service."""

    def serve(self, address: Mapping[str, str]) -> None:
        """Take where the service is; called before ``start``."""
        ...


class ToolsHarness(Harness, Protocol):
    """The harness of a host of tools: the port has no way to add one, so the harness brings four."""

    def equip(self, backend: Tools) -> None:
        """Make these tools callable on the host.

        ``echo`` answers ``{"config": config, "arguments": arguments}``; ``strict`` refuses every
        argument with ``InvalidError``; ``broken`` fails; ``nonsense`` answers what is no JSON.
        """
        ...
