"""How a refusal reaches the model: one table from amem's errors to results that it can act on.

A result says what was refused, by which rule and what to do next. What nobody foresaw is logged
with its traceback, on standard error; the model gets a number to quote and nothing else.
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Any

from mcp import MCPError
from mcp.types import INTERNAL_ERROR

from amem_core import errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import ValidationError

logger = logging.getLogger(__name__)

META_KEY = "amem/error"
_RETRY = "The same call may succeed later: wait, then try again unchanged."
_NO_RETRY = "The same call will be refused again."
_OWNER = "tell the owner of this memory; `amem doctor` shows more"
# The first line that fits gives what was refused and, for an error without a hint, what to do next.
TABLE: tuple[tuple[type[errors.AmemError], str, str], ...] = (
    (errors.DeniedError, "The policy refused this", "ask the owner to allow it; do not look for a way around it"),
    (errors.InvalidError, "The arguments break a rule", "correct them and call again"),
    (errors.NotFoundError, "There is no such thing for this session", "check the id, or search for it"),
    (errors.ConflictError, "Something else came first", "read the current state, then decide"),
    (errors.UnsupportedError, "The configured backend cannot do this", "do it another way"),
    (errors.UnavailableError, "This could not be done now", "try again later; if it stays so, tell the owner"),
    (errors.FormatError, "What is stored there cannot be served", _OWNER),
    (errors.ConfigError, "This memory is not configured right", _OWNER),
    (errors.PluginError, "This memory is not configured right", _OWNER),
)
_MOST_FIELDS = 10
_LONGEST_NAME = 60


def refusal(error: errors.AmemError) -> dict[str, Any]:
    """Return the tool result for an error of amem's own."""
    for kind, lead, remedy in TABLE:
        if isinstance(error, kind):
            rules = error.rules if isinstance(error, errors.DeniedError) else ()
            return failed(
                f"{lead}: {error}", error.hint or remedy, code=error.code, retryable=error.retryable, rules=rules
            )
    return crash(error, "a tool")


def wrong_arguments(tool: str, known: Iterable[str], error: ValidationError) -> dict[str, Any]:
    """Return the tool result for arguments that the schema refuses: field, rule and remedy, never the value."""
    lines: list[str] = []
    details = error.errors(include_url=False, include_input=False, include_context=False)
    for detail in details[:_MOST_FIELDS]:
        where = ".".join(str(part) for part in detail["loc"])[:_LONGEST_NAME] or "arguments"
        if detail["type"] == "extra_forbidden":
            lines.append(f"- {where}: {tool} takes no such argument")
        else:
            lines.append(f"- {where}: {detail['msg'].removeprefix('Value error, ')}")
    if len(details) > _MOST_FIELDS:
        lines.append(f"- and {len(details) - _MOST_FIELDS} more")
    message = "\n".join(["The arguments break a rule; nothing was done:", *lines])
    hint = f"correct them and call {tool} again; it takes: {', '.join(known) or 'nothing'}"
    return failed(message, hint, code=errors.InvalidError.code)


def unknown_tool(name: str, known: Iterable[str]) -> dict[str, Any]:
    """Return the tool result for a tool that is not here."""
    message = f"There is no tool {name[:_LONGEST_NAME]!r} here"
    return failed(message, f"use one of: {', '.join(known)}", code=errors.NotFoundError.code)


def crash(error: BaseException, doing: str) -> dict[str, Any]:
    """Log what nobody foresaw and return a tool result that gives nothing of it away."""
    number = _logged(error, doing)
    message = f"Something went wrong inside amem; it is logged as {number}"
    return failed(message, f"quote {number} to the owner of this memory", code=errors.InternalError.code)


def failed(
    message: str, hint: str, *, code: str, retryable: bool = False, rules: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return a tool result that is an error, in words for the model and in ``_meta`` for a program."""
    lines = [message]
    if rules:
        lines.append(f"Rules: {', '.join(rules)}")
    lines.extend([f"What to do: {hint}", f"{_RETRY if retryable else _NO_RETRY} (code: {code})"])
    return {
        "content": [{"type": "text", "text": "\n".join(lines)}],
        "isError": True,
        "resultType": "complete",
        "_meta": {META_KEY: {"code": code, "hint": hint, "retryable": retryable, "rules": list(rules)}},
    }


def resource_error(error: BaseException, uri: str) -> MCPError:
    """Return the protocol error for a resource that exists and could not be read."""
    if isinstance(error, errors.AmemError) and not isinstance(error, errors.InternalError):
        data = {"uri": uri, "code": error.code, "hint": error.hint, "retryable": error.retryable}
        return MCPError(code=INTERNAL_ERROR, message=f"{uri} could not be read: {error}", data=data)
    number = _logged(error, uri)
    message = f"Something went wrong inside amem; it is logged as {number}"
    return MCPError(code=INTERNAL_ERROR, message=message, data={"uri": uri, "code": errors.InternalError.code})


def _logged(error: BaseException, doing: str) -> str:
    number = secrets.token_hex(4)
    logger.error("internal error %s in %s", number, doing, exc_info=error)
    return number
