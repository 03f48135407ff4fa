"""Standard input and output as a wire of JSON lines that nothing else in the process can touch.

A plugin that prints, a library that warns, a child that inherits the descriptors: each would put
bytes between the protocol's messages. So the wire moves to private descriptors, and 0 and 1 point
at nothing and at standard error, for good: what is still in a buffer at exit must not reach the
wire either.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import stat
import sys
import termios
from typing import TYPE_CHECKING

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter
from pydantic import ValidationError

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

_CHUNK = 1 << 16


def take_over() -> tuple[int, int]:
    """Return private descriptors of standard input and output; everybody else gets nothing and standard error.

    Descriptors 0 and 1, and ``sys.stdin`` and ``sys.stdout``, stay diverted until the process ends.
    """
    source, wire = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        # Standard error is closed.
        os.dup2(nothing, 1)
    os.close(nothing)
    for stream in (sys.stdout, sys.__stdout__):
        if stream is not None:
            # What was printed before belongs to standard error too.
            stream.flush()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  (open until the process ends)
    sys.stdout = sys.stderr
    return source, wire


async def read_messages(source: int, messages: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    """Send each line of ``source`` as a message, or as the error that it is no message, until it ends."""
    async with messages:
        rest = b""
        try:
            while data := await _read(source):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    if line.strip():
                        await messages.send(_parsed(line))
        except anyio.BrokenResourceError:
            # The server has ended.
            return


async def write_messages(wire: int, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
    """Write each message as one line, until there are no more or nobody reads them."""
    writer = _Writer(wire)
    async with messages:
        async for message in messages:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
            try:
                await writer.write(line)
            except (BrokenPipeError, ConnectionResetError):
                return


async def _read(source: int) -> bytes:
    try:
        await anyio.wait_readable(source)
    except PermissionError:
        # A regular file cannot be waited for and need not be.
        await anyio.lowlevel.checkpoint()
    return os.read(source, _CHUNK)


class _Writer:
    """Writes without ever holding up the event loop, and without asking others to put up with a non-blocking descriptor.

    Each write wakes the reader, so a line goes out in as few of them as possible.
    """

    def __init__(self, wire: int) -> None:
        self._wire = wire
        self._ready = select.poll()
        self._ready.register(wire, select.POLLOUT)
        mode = os.fstat(wire).st_mode
        self._socket = socket.socket(fileno=os.dup(wire)) if stat.S_ISSOCK(mode) else None
        # What an empty pipe takes at once, where that can be asked.
        asked = stat.S_ISFIFO(mode) and hasattr(fcntl, "F_GETPIPE_SZ")
        self._capacity = fcntl.fcntl(wire, fcntl.F_GETPIPE_SZ) if asked else 0

    async def write(self, data: bytes) -> None:
        """Write all of ``data``."""
        view = memoryview(data)
        while view:
            taken = self._some(view) if self._ready.poll(0) else 0
            if not taken:
                await anyio.wait_writable(self._wire)
            view = view[taken:]

    def _some(self, view: memoryview) -> int:
        """Write as much as a descriptor that is ready takes for certain; return how much."""
        if self._socket is not None:
            try:
                return self._socket.send(view, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return 0
        room = self._capacity if self._capacity and not self._queued() else select.PIPE_BUF
        return os.write(self._wire, view[:room])

    def _queued(self) -> int:
        """Return how many bytes of the pipe have not been read yet."""
        return int.from_bytes(fcntl.ioctl(self._wire, termios.FIONREAD, bytes(4)), sys.byteorder)


def _parsed(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValidationError as exc:
        return exc
