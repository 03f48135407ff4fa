"""An agent for the demo: the official MCP client, the real server in another process, and what they said."""

from __future__ import annotations

import json
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent, TextResourceContents

from amem_core.services.tokens import count_tokens
from amem_launcher.commands.demo.stage import StepError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from amem_launcher.commands.demo.stage import Stage

T0_URI = "amem://t0"
_ERROR = "amem/error"
_LONGEST_WAIT = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool answered. ``code`` is amem's word for why it was refused, empty when it was not."""

    text: str
    data: dict[str, Any]
    code: str


class Agent:
    """One session of an agent, which ends with its context.

    ``spoken`` holds every request and every result as a model's context would: name and arguments,
    and the text that came back.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self.spoken: list[str] = []

    async def ask(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool, whatever it answers."""
        result = await self._client.call_tool(tool, arguments)
        text = "\n".join(item.text for item in result.content if isinstance(item, TextContent))
        self.spoken += [json.dumps({"name": tool, "arguments": arguments}, ensure_ascii=False), text]
        code = str((result.meta or {}).get(_ERROR, {}).get("code", "error")) if result.is_error else ""
        return Answer(text, dict(result.structured_content or {}), code)

    async def do(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool that must answer.

        Raises:
            StepError: it was refused.
        """
        answer = await self.ask(tool, **arguments)
        if answer.code:
            message = f"{tool} was refused: {answer.text}"
            raise StepError(message)
        return answer

    async def refused(self, tool: str, code: str, **arguments: Any) -> str:
        """Call a tool that must be refused for the reason ``code``; return the first line of its refusal.

        Raises:
            StepError: it was not refused, or for another reason.
        """
        answer = await self.ask(tool, **arguments)
        if answer.code != code:
            was = f"refused as {answer.code}" if answer.code else "done"
            message = f"{tool} was to be refused as {code} and was {was}: {answer.text}"
            raise StepError(message)
        return answer.text.partition("\n")[0]

    async def first_read(self) -> str:
        """Return the resource T0."""
        result = await self._client.read_resource(T0_URI)
        text = "\n".join(item.text for item in result.contents if isinstance(item, TextResourceContents))
        self.spoken += [T0_URI, text]
        return text

    def tokens(self) -> int:
        """Return how many tokens everything said so far takes."""
        return sum(count_tokens(text) for text in self.spoken)


def _errors(stage: Stage) -> TextIO:
    """Open what the servers' messages are kept in."""
    return open(stage.beside("server.log"), "a", encoding="utf-8")


@asynccontextmanager
async def agent(stage: Stage) -> AsyncGenerator[Agent]:
    """Start ``amem serve`` on the stage's root and open a session with it; both end with the context."""
    # The SDK passes hardly any of our environment on; a Python that finds amem by its path must keep it.
    python = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
    arguments = ["-m", "amem_launcher", "--root", stage.root, "serve"]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=python, cwd=stage.home)
    with _errors(stage) as errors:
        async with Client(stdio_client(server, errlog=errors), read_timeout_seconds=_LONGEST_WAIT) as client:
            yield Agent(client)
