"""The Tools port: code that reaches the outside under a grant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from amem_core.domain.tools import ToolAnswer


class ToolsCapabilities(NamedTuple):
    """What a host of tools can promise beyond the base contract."""

    confined: bool = False


class Tools(Protocol):
    """A host of named tools. Callable from any thread."""

    @property
    def capabilities(self) -> ToolsCapabilities:
        """What this host can promise, as configured."""
        ...

    def names(self) -> list[str]:
        """Return the tools that can be called, sorted."""
        ...

    def call(self, tool: str, config: Mapping[str, Any], arguments: Mapping[str, Any]) -> ToolAnswer:
        """Call one tool; return its answer and the addresses that it reached.

        Raises:
            NotFoundError: there is no such tool.
            InvalidError: ``config`` or ``arguments`` are not what the tool takes.
            UnavailableError: the tool failed or reached nothing.
        """
        ...

    def close(self) -> None:
        """Release what is held. Idempotent."""
        ...
