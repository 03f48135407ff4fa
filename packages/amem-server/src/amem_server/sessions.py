"""Whose call this is: which amem session a request belongs to.

Nothing that a model can set decides it. Over stdio a process is a session. Over HTTP a client that
shook hands has the session that its handshake opened; a client of the stateless era has the one
that its bearer's principal holds, until that has been idle for a while.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from amem_core.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp.server.context import ServerRequestContext
    from starlette.requests import Request

    from amem_core.memory import Memory
    from amem_core.session import Session

SESSION_HEADER = "mcp-session-id"


class Sessions(Protocol):
    """Finds the session of a request."""

    def of(self, ctx: ServerRequestContext[Any, Any]) -> Session:
        """Return the open session that the request belongs to. May block; called on a worker thread.

        Raises:
            DeniedError: the policy refuses to open one.
        """
        ...


class OneSession:
    """Every request belongs to the one session of this process."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def of(self, ctx: ServerRequestContext[Any, Any]) -> Session:  # noqa: ARG002  (the protocol's signature)
        """Return the session."""
        return self._session


@dataclass(slots=True)
class _Held:
    session: Session
    used: float


class SessionPerClient:
    """One session for each client over HTTP.

    ``idle_seconds`` is after how long without a request a session ends; ``monotonic`` returns
    seconds that never go back.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        destination: str | None,
        domains: Sequence[str] | None,
        idle_seconds: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._memory = memory
        self._destination = destination
        self._domains = domains
        self._idle_seconds = idle_seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._held: dict[tuple[str, str], _Held] = {}

    def of(self, ctx: ServerRequestContext[Any, Any]) -> Session:
        """Return the client's session, opening it on its first request."""
        key = _key(ctx)
        with self._lock:
            now = self._monotonic()
            self._end_idle(now)
            held = self._held.get(key)
            if held is None:
                session = self._memory.session(destination=self._destination, domains=self._domains)
                held = self._held[key] = _Held(session, now)
            held.used = now
            return held.session

    def end(self, principal: str, client: str) -> None:
        """End the session of a client that has said goodbye."""
        with self._lock:
            held = self._held.pop((principal, client), None)
        if held is not None:
            held.session.close()

    def close(self) -> None:
        """End every session. Idempotent."""
        with self._lock:
            ending = list(self._held.values())
            self._held.clear()
        for held in ending:
            held.session.close()

    def __len__(self) -> int:
        """Return how many sessions are held."""
        return len(self._held)

    def _end_idle(self, now: float) -> None:
        for key in [key for key, held in self._held.items() if now - held.used > self._idle_seconds]:
            self._held.pop(key).session.close()


def _key(ctx: ServerRequestContext[Any, Any]) -> tuple[str, str]:
    """Return the principal and, for a client that shook hands, the id that the transport gave and has checked."""
    request: Request | None = ctx.request
    if request is None:
        message = "a request over HTTP carries no HTTP request"
        raise InternalError(message)
    principal: str = request.scope["user"].username
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return principal, ""
    return principal, request.headers.get(SESSION_HEADER, "")
