"""The server over streamable HTTP: for clients that cannot start a process, and for other machines.

Every request carries the bearer token, on loopback too: whoever shares the machine is not the
owner. The host and the origin that a request names are checked, so that a page in a browser cannot
reach a server on loopback through a name of its own.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import signal
import socket
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.routing import Route

from amem_core.errors import InvalidError, UnavailableError
from amem_server.app import build_server, settled_process
from amem_server.sessions import SESSION_HEADER, SessionPerClient
from amem_server.tokens import Bearer, check_token, kept_token

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Sequence
    from types import FrameType

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from amem_core.memory import Memory

logger = logging.getLogger(__name__)

PATH = "/mcp"
IDLE_SECONDS = 1800.0
MOST_SESSIONS = 1000
_PRINCIPAL = "http"
_GOODBYE_SECONDS = 3
_BACKLOG = 128


def serve(
    memory: Memory,
    *,
    host: str = "127.0.0.1",
    port: int,
    token: str | None = None,
    destination: str | None = None,
    domains: Sequence[str] | None = None,
    allowed_hosts: Sequence[str] = (),
    idle_seconds: float = IDLE_SECONDS,
    announce: Callable[[str, str | None], None] | None = None,
) -> None:
    """Serve over HTTP until SIGINT or SIGTERM.

    ``announce`` is called once the server listens, with its URL and with the path of the file that
    holds the token, which is None when ``token`` was given; without it, both are logged as a
    warning. ``port`` 0 takes a free one.
    ``allowed_hosts`` are further names or addresses by which clients reach it.

    Raises:
        InvalidError: the address is none, or is not on loopback and no token was given; or it
            stands for every address and no host was named.
        UnavailableError: the address cannot be listened on, or the token file cannot be used.
    """
    hosts = check_address(host, token=token, allowed_hosts=allowed_hosts)
    secret, path = kept_token(memory.root) if token is None else (check_token(token), None)
    with _listening(host, port) as listener:
        bound = listener.getsockname()[1]
        app = build_app(
            memory,
            token=secret,
            hosts=hosts,
            destination=destination,
            domains=domains,
            idle_seconds=idle_seconds,
        )
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=_GOODBYE_SECONDS,
        )
        with _quiet_signals(), settled_process():
            (announce or _log_address)(f"http://{_bracketed(host)}:{bound}{PATH}", path)
            uvicorn.Server(config).run(sockets=[listener])


def check_address(host: str, *, token: str | None, allowed_hosts: Sequence[str] = ()) -> list[str]:
    """Return the hosts that a request may name when the server listens on ``host``.

    Raises:
        InvalidError: ``host`` is not on loopback and no token was given; or it stands for every
            address and ``allowed_hosts`` is empty.
    """
    plain = host.removeprefix("[").removesuffix("]")
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        address = None
    if plain == "localhost" or (address is not None and address.is_loopback):
        return ["127.0.0.1", "localhost", "[::1]", _bracketed(plain), *allowed_hosts]
    if token is None:
        message = f"{host} can be reached from other machines and no token was given"
        raise InvalidError(message, hint="give a token of your own, or listen on 127.0.0.1")
    if address is not None and address.is_unspecified:
        if not allowed_hosts:
            message = f"{host} stands for every address of this machine, so the host that clients name is not known"
            raise InvalidError(message, hint="listen on the one address that clients use")
        return list(allowed_hosts)
    return [_bracketed(plain), *allowed_hosts]


def build_app(
    memory: Memory,
    *,
    token: str,
    hosts: Sequence[str],
    destination: str | None = None,
    domains: Sequence[str] | None = None,
    idle_seconds: float = IDLE_SECONDS,
    monotonic: Callable[[], float] = time.monotonic,
) -> ASGIApp:
    """Return the ASGI application: ``/mcp`` behind the bearer token.

    ``hosts`` are what a request's ``Host`` and ``Origin`` may name, with any port.
    """
    sessions = SessionPerClient(
        memory, destination=destination, domains=domains, idle_seconds=idle_seconds, monotonic=monotonic
    )
    manager = StreamableHTTPSessionManager(
        app=build_server(sessions),
        json_response=True,
        security_settings=TransportSecuritySettings(
            allowed_hosts=[form for host in hosts for form in (host, f"{host}:*")],
            allowed_origins=[
                form
                for host in hosts
                for scheme in ("http", "https")
                for form in (f"{scheme}://{host}", f"{scheme}://{host}:*")
            ],
        ),
        session_idle_timeout=idle_seconds,
        max_sessions=MOST_SESSIONS,
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        try:
            async with manager.run():
                yield
        finally:
            sessions.close()

    starlette = Starlette(routes=[Route(PATH, endpoint=StreamableHTTPASGIApp(manager))], lifespan=lifespan)
    return _Guard(starlette, Bearer(token), sessions)


class _Guard:
    """Lets nothing through without the token, and notes when a client says goodbye."""

    def __init__(self, app: ASGIApp, bearer: Bearer, sessions: SessionPerClient) -> None:
        self._app = app
        self._bearer = bearer
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if not self._authorized(given):
            challenge = 'Bearer realm="amem"' + (', error="invalid_token"' if given else "")
            message = "send the server's token as: Authorization: Bearer <token>"
            await _refuse(send, 401, message, (b"www-authenticate", challenge.encode()))
            return
        if scope["method"] == "GET":
            # A stream from the server would carry nothing, and keep its session from being idle.
            await _refuse(send, 405, "this server sends no messages of its own", (b"allow", b"POST, DELETE"))
            return
        # What the SDK binds a session to: another principal finds no such session.
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=_PRINCIPAL, scopes=[]))
        if scope["method"] == "DELETE":
            send = self._ending(scope, send)
        await self._app(scope, receive, send)

    def _authorized(self, given: list[bytes]) -> bool:
        if len(given) != 1:
            return False
        scheme, _, token = given[0].partition(b" ")
        return scheme.lower() == b"bearer" and self._bearer.accepts(token.strip())

    def _ending(self, scope: Scope, send: Send) -> Send:
        client = next((value for name, value in scope["headers"] if name == SESSION_HEADER.encode()), b"")

        async def ending(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 300:  # noqa: PLR2004  (success)
                self._sessions.end(_PRINCIPAL, client.decode("latin-1"))
            await send(message)

        return ending


async def _refuse(send: Send, status: int, message: str, header: tuple[bytes, bytes]) -> None:
    body = json.dumps({"message": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), header]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _log_address(url: str, token_file: str | None) -> None:
    kept = "" if token_file is None else f"; the bearer token is in {token_file}"
    logger.warning("listening on %s%s", url, kept)


@contextmanager
def _listening(host: str, port: int) -> Generator[socket.socket]:
    plain = host.removeprefix("[").removesuffix("]")
    family = socket.AF_INET6 if ":" in plain else socket.AF_INET
    try:
        listener = socket.create_server((plain, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as exc:
        message = f"{host}:{port} cannot be listened on: {getattr(exc, 'strerror', None) or exc}"
        raise UnavailableError(message, hint="choose another port, or stop what listens there") from exc
    with listener:
        yield listener


@contextmanager
def _quiet_signals() -> Generator[None]:
    """Make the two signals that stop the server mean nothing else: uvicorn raises them again when it has stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _ignore) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing: unlike ``SIG_IGN``, this is not inherited by a child."""


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
