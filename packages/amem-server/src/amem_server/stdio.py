"""The server of one session over standard input and output: how a harness starts it."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import anyio
from mcp.shared.message import SessionMessage

from amem_server._streams import read_messages, take_over, write_messages
from amem_server.app import build_server, settled_process
from amem_server.sessions import OneSession

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp.server.lowlevel import Server

    from amem_core.memory import Memory


def serve(
    memory: Memory,
    *,
    destination: str | None = None,
    domains: Sequence[str] | None = None,
    author: str | None = None,
) -> None:
    """Serve one session on standard input and output until input ends or SIGINT or SIGTERM arrives.

    The session is new and ends with it; ``author``, ``destination`` and ``domains`` are those of
    ``Memory.session``. Standard output belongs to the protocol from here on: whatever else is
    printed in this process goes to standard error, until the process ends.

    Raises:
        DeniedError: the policy refuses the session.
    """
    source, wire = take_over()
    with memory.session(author=author, destination=destination, domains=domains) as session:
        server = build_server(OneSession(session))
        with settled_process():
            anyio.run(_serve, server, source, wire)


async def _serve(server: Server[Any], source: int, wire: int) -> None:
    incoming, requests = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    answers, outgoing = anyio.create_memory_object_stream[SessionMessage](0)

    async with anyio.create_task_group() as tasks:
        if threading.current_thread() is threading.main_thread():
            tasks.start_soon(_stop_on_signal, tasks.cancel_scope)
        tasks.start_soon(read_messages, source, incoming)
        tasks.start_soon(server.run, requests, answers, server.create_initialization_options())
        # The server closes its answers when it ends; the client may stop reading them before that.
        await write_messages(wire, outgoing)
        tasks.cancel_scope.cancel()


async def _stop_on_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return
