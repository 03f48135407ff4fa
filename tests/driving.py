"""Driving amem from outside: the installed command in a process of its own, and an agent that speaks MCP to the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp import Client, StdioServerParameters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SECONDS = 60


def program() -> list[str]:
    """Return the installed ``amem``; from a tree that is not installed, its module."""
    installed = os.path.join(os.path.dirname(sys.executable), "amem")
    return [installed] if os.path.exists(installed) else [sys.executable, "-m", "amem_launcher"]


def environment() -> dict[str, str]:
    """Return this process's environment without what would choose a root or change what is printed."""
    chosen = {"AMEM_ROOT", "AMEM_DEBUG", "AMEM_TOKEN", "NO_COLOR", "COLUMNS"}
    return {name: value for name, value in os.environ.items() if name not in chosen}


@dataclass(frozen=True)
class Ran:
    """What one call of ``amem`` gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)


def amem(*arguments: object, root: object, code: int | None = 0, stdin: str = "", **changes: str) -> Ran:
    """Run the command on ``root``; ``code`` is what it must exit with, None when that is open."""
    done = subprocess.run(
        [*program(), *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**environment(), "AMEM_ROOT": str(root), **changes},
        timeout=SECONDS,
        check=False,
    )
    assert code is None or done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return Ran(done.returncode, done.stdout, done.stderr)


class Agent:
    """An agent's session: one client of one server process."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def do(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must answer; return its structured content."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content[0].text
        return dict(result.structured_content)

    async def refused(self, tool: str, **arguments: Any) -> tuple[str, str]:
        """Call a tool that must be refused; return the code and the words."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, result.structured_content
        return result.meta["amem/error"]["code"], result.content[0].text

    async def t0(self) -> str:
        """Return the resource ``amem://t0``."""
        return (await self.client.read_resource("amem://t0")).contents[0].text


@asynccontextmanager
async def agent(root: object) -> AsyncIterator[Agent]:
    """Start ``amem serve`` on ``root`` in another process; it ends with the context."""
    command, *rest = program()
    server = StdioServerParameters(command=command, args=[*rest, "--root", str(root), "serve"], env=environment())
    async with Client(server, read_timeout_seconds=SECONDS) as client:
        yield Agent(client)
