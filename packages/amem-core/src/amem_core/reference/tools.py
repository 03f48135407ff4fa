"""The Tools port with Python callables: what is registered can be called, and nothing reaches the outside unsaid."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

from amem_core.domain.tools import ToolAnswer
from amem_core.errors import AmemError, ConflictError, InvalidError, NotFoundError, UnavailableError
from amem_core.ports.tools import ToolsCapabilities

Tool = Callable[[Mapping[str, Any], Mapping[str, Any]], "Mapping[str, Any] | ToolAnswer"]


def open_tools(root: str, settings: object) -> MemoryTools:  # noqa: ARG001  (a factory's signature)
    """Open a host without tools."""
    return MemoryTools()


class MemoryTools:
    """Calls functions of this process. It confines nothing, and says so."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tools: dict[str, Tool] = {}

    @property
    def capabilities(self) -> ToolsCapabilities:
        """No confinement: a tool runs in this process."""
        return ToolsCapabilities()

    def register(self, name: str, tool: Tool) -> None:
        """Add a tool: a callable that takes the configuration and the arguments.

        It answers a mapping, or a ``ToolAnswer`` when it reached addresses. It raises ``InvalidError``
        for a configuration or arguments that it does not take.

        Raises:
            ConflictError: another tool has that name.
        """
        with self._lock:
            if name in self._tools:
                message = f"there is a tool {name} already"
                raise ConflictError(message, hint="give one of them another name")
            self._tools[name] = tool

    def names(self) -> list[str]:
        """Return the tools that can be called, sorted."""
        with self._lock:
            return sorted(self._tools)

    def call(self, tool: str, config: Mapping[str, Any], arguments: Mapping[str, Any]) -> ToolAnswer:
        """Call one tool; return a copy of its answer, and the addresses that it says it reached.

        Raises:
            NotFoundError: there is no such tool.
            InvalidError: ``config`` or ``arguments`` are not what the tool takes, or are no JSON.
            UnavailableError: the tool failed, or its answer is no JSON object.
        """
        with self._lock:
            found = self._tools.get(tool)
        if found is None:
            message = f"there is no tool {tool!r}"
            raise NotFoundError(message, hint=f"there are: {', '.join(self.names()) or 'none'}")
        taken_config = _taken(tool, "configuration", config)
        taken_arguments = _taken(tool, "arguments", arguments)
        try:
            answer = found(taken_config, taken_arguments)
        except AmemError:
            raise
        except Exception as exc:  # a tool may raise anything; it becomes one named error
            message = f"the tool {tool} failed: {type(exc).__name__}: {exc}"
            raise UnavailableError(message, hint="call it again, or ask the owner to mend it") from exc
        if isinstance(answer, ToolAnswer):
            return ToolAnswer(_answered(tool, answer.content), tuple(answer.addresses))
        return ToolAnswer(_answered(tool, answer), ())

    def close(self) -> None:
        """Nothing is held."""


def _taken(tool: str, what: str, value: object) -> dict[str, Any]:
    try:
        return _copied(value)
    except (TypeError, ValueError, RecursionError) as exc:
        message = f"the {what} for the tool {tool} are no JSON object: {exc}"
        raise InvalidError(message, hint="give an object of text, numbers, true, false, null and lists") from exc


def _answered(tool: str, value: object) -> dict[str, Any]:
    try:
        return _copied(value)
    except (TypeError, ValueError, RecursionError) as exc:
        message = f"the tool {tool} answered what is no JSON object: {exc}"
        raise UnavailableError(message, hint="ask the owner to mend the tool") from exc


def _copied(value: object) -> dict[str, Any]:
    """Return a JSON object as a copy of its own, so that nobody changes it behind another's back."""
    if not isinstance(value, Mapping):
        message = f"it is {type(value).__name__}"
        raise TypeError(message)
    table = dict(cast("Mapping[str, Any]", value))
    copy = json.loads(json.dumps(table, allow_nan=False))
    if copy != table:
        message = "it does not survive JSON: keys must be text, and sequences lists"
        raise TypeError(message)
    return cast("dict[str, Any]", copy)
