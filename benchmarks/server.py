"""M1: what a search over MCP costs, beside the smallest tool that the SDK's low-level server can offer.

Both are processes spoken to over pipes by the official client, a call in turn; the median of the calls
counts. A start is the time from the spawn to the answer to the first ``tools/list``.
``python -m benchmarks.server`` prints it.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from functools import cache
from typing import TYPE_CHECKING, Any

import anyio
from mcp import Client, StdioServerParameters

from amem_core import Memory
from amem_core.domain.entries import Draft
from benchmarks.harness import Row, interleave

if TYPE_CHECKING:
    from collections.abc import Sequence

ENTRIES = 10_000
CALLS = 300
ROUNDS = 9
_VOCABULARY = 8000
# The smallest server: one tool, no schema of its answer, the SDK's own transport.
_ECHO = """
import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

async def list_tools(ctx, params):
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    return ListToolsResult(tools=[Tool(name="search", input_schema=schema)])

async def call_tool(ctx, params):
    return CallToolResult(content=[TextContent(type="text", text=params.arguments["query"])])

async def main():
    server = Server("echo", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (requests, answers):
        await server.run(requests, answers, server.create_initialization_options())

anyio.run(main)
"""
_OPENING = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
]


def rows(scale: float = 1.0) -> list[Row]:
    """Return the rows of M1; ``scale`` multiplies entries, calls and rounds."""
    count = max(200, int(ENTRIES * scale))
    with tempfile.TemporaryDirectory() as scratch:
        root = os.path.join(scratch, "root")
        _fill(root, count)
        ours, raw = ["-m", "amem_server", "--root", root], ["-c", _ECHO]
        call = anyio.run(_calls, (ours, raw), count, max(30, int(CALLS * scale)))
        start = interleave(lambda: _start(ours), lambda: _start(raw), rounds=max(3, int(ROUNDS * scale)))
    return [
        Row(
            "M1 call",
            f"search over MCP at {count} entries: p50 at most 1.6 times a minimal echo tool",
            1e3 * call[0],
            1e3 * call[1],
            "ms",
            "lower",
        ),
        Row(
            "M1 start",
            "start to the first tools/list: at most 1.2 times a minimal server",
            1e3 * start[0],
            1e3 * start[1],
            "ms",
            "lower",
        ),
    ]


def _fill(root: str, count: int) -> None:
    """Write entries of a hundred words: four of the five words of a topic, which forty entries share, and prose."""
    Memory.init(root, domain="notes")
    chance = random.Random(1)
    drafts = []
    for number in range(count):
        about = chance.sample(_topic(number % _topics(count)), 4)
        drafts.append(
            Draft(
                domain="notes",
                type="fact",
                title=f"{about[0]} {about[1]} {_prose(chance, 4)}",
                summary=f"{about[2]} {about[3]} {_prose(chance, 13)}",
                body=_prose(chance, 80),
            )
        )
    with Memory.open(root) as memory, memory.session(author="owner") as session:
        for begin in range(0, count, 1000):
            session.write_many(drafts[begin : begin + 1000])


def _topics(count: int) -> int:
    return max(1, count // 40)


def _topic(number: int) -> list[str]:
    # No topic is told by the commonest words.
    return random.Random(number).sample(_vocabulary()[_VOCABULARY // 10 :], 5)


def _prose(chance: random.Random, length: int) -> str:
    """Return words of which the common ones come often and the rare ones seldom."""
    words = _vocabulary()
    return " ".join(words[int(len(words) * chance.random() ** 3)] for _ in range(length))


@cache
def _vocabulary() -> list[str]:
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    return [syllables[n % 70] + syllables[n // 70 % 70] + syllables[n // 4900] for n in range(_VOCABULARY)]


def _question(chance: random.Random, count: int) -> dict[str, str]:
    """Return three words of one topic: about sixteen entries hold them together."""
    return {"query": " ".join(chance.sample(_topic(chance.randrange(_topics(count))), 3))}


async def _calls(servers: tuple[list[str], list[str]], count: int, calls: int) -> tuple[float, float]:
    """Return the median seconds of a call to each server, in turn; the first tenth warms up."""
    chance = random.Random(2)
    taken: tuple[list[float], list[float]] = ([], [])
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(_client(arguments)) for arguments in servers]
        for number in range(calls + calls // 10):
            asked = _question(chance, count)
            for which in (number % 2, 1 - number % 2):
                begun = time.perf_counter()
                answer = await clients[which].call_tool("search", asked)
                spent = time.perf_counter() - begun
                if answer.is_error:
                    raise RuntimeError(str(answer.content))
                if number >= calls // 10:
                    taken[which].append(spent)
    return statistics.median(taken[0]), statistics.median(taken[1])


def _client(arguments: Sequence[str]) -> Client:
    return Client(StdioServerParameters(command=sys.executable, args=list(arguments), env=dict(os.environ)))


def _start(arguments: list[str]) -> None:
    """Start a server, wait for its first list of tools, and let it end."""
    opening = "".join(json.dumps(message) + "\n" for message in _OPENING).encode()
    with subprocess.Popen([sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        answers: Any = process.stdout
        process.stdin.write(opening)  # type: ignore[union-attr]  # it is a pipe
        process.stdin.flush()  # type: ignore[union-attr]  # it is a pipe
        while json.loads(answers.readline()).get("id") != len(_OPENING) - 1:
            pass
        process.kill()


if __name__ == "__main__":
    for row in rows(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0):
        print(f"{row.id}: {row.ours:.2f} / {row.raw:.2f} {row.unit} = {row.ratio:.2f}  ({row.goal})")
