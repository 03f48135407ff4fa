"""The server over HTTP: who gets in, and whose session a request belongs to. Without sockets, but for the last tests."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from amem_core import Memory
from amem_core.domain.labels import Label
from amem_core.errors import InvalidError, UnavailableError
from amem_server import http, tokens

pytestmark = pytest.mark.anyio

TOKEN = "a-token-that-is-long-enough"
URL = "http://127.0.0.1:8420/mcp"
HOSTS = ["127.0.0.1", "localhost"]
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


class Clock:
    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def app(memory, clock):
    return http.build_app(memory, token=TOKEN, hosts=HOSTS, idle_seconds=60, monotonic=clock)


@contextlib.asynccontextmanager
async def running(app):
    """Run the application's lifespan around the block, as a server would."""
    async with app._app.router.lifespan_context(app._app):
        yield httpx2.ASGITransport(app)


@contextlib.asynccontextmanager
async def connected(transport, mode="auto", token=TOKEN):
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(transport=transport, headers=headers) as wire,
        Client(streamable_http_client(URL, http_client=wire), mode=mode) as client,
    ):
        yield client


@pytest.fixture(params=["auto", "legacy"])
def mode(request):
    return request.param


async def test_a_client_with_the_token_is_served(app, mode, plant, checked):
    id = plant()
    async with running(app) as transport, connected(transport, mode) as client:
        found = checked("search", await client.call_tool("search", {"query": "locks"}))
        first = await client.read_resource("amem://t0")
        tools = await client.list_tools()
    assert [hit["id"] for hit in found["hits"]] == [id]
    assert first.contents[0].text
    assert len(tools.tools) == 12


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer wrong-token-that-is-long"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": TOKEN},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Bearer {TOKEN.upper()}"},
        {"authorization": f"Bearer {TOKEN} {TOKEN}"},
        [("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {TOKEN}")],
        {"x-authorization": f"Bearer {TOKEN}"},
        {"cookie": f"token={TOKEN}"},
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS", "HEAD"])
async def test_every_request_without_the_token_is_refused(app, headers, method):
    async with running(app) as transport, httpx2.AsyncClient(transport=transport) as wire:
        for path in (URL, f"{URL}?token={TOKEN}", "http://127.0.0.1:8420/", "http://127.0.0.1:8420/.well-known/x"):
            answer = await wire.request(method, path, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith('Bearer realm="amem"')
            assert TOKEN not in answer.text


async def test_the_scheme_of_the_token_may_be_written_in_any_case(app):
    headers = {**ACCEPT, "authorization": f"bearer {TOKEN}"}
    async with running(app) as transport, httpx2.AsyncClient(transport=transport) as wire:
        answer = await wire.post(URL, headers=headers, json=INITIALIZE)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:8420"}, 421),
        ({"host": "127.0.0.1.evil.example:8420"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://localhost.evil.example:8420"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "localhost:8420", "origin": "http://localhost:8420"}, 200),
        ({}, 200),
    ],
)
@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
async def test_a_page_in_a_browser_cannot_reach_it_through_a_name_of_its_own(app, headers, status, era):
    sent = {**ACCEPT, "authorization": f"Bearer {TOKEN}", **headers}
    if era == "2026-07-28":
        sent["mcp-protocol-version"] = era
        # There is no bare handshake in that era: what gets past the check is refused for that.
        status = 400 if status == 200 else status
    async with running(app) as transport, httpx2.AsyncClient(transport=transport) as wire:
        answer = await wire.post(URL, headers=sent, json=INITIALIZE)
    assert answer.status_code == status


async def author_of(client, checked):
    entry = {"type": "fact", "title": os.urandom(8).hex(), "summary": "Who am I?"}
    written = checked("write", await client.call_tool("write", entry))
    return checked("get", await client.call_tool("get", {"id": written["id"]}))["author"]


async def test_clients_that_shook_hands_have_sessions_of_their_own(app, checked):
    async with (
        running(app) as transport,
        connected(transport, "legacy") as one,
        connected(transport, "legacy") as two,
    ):
        authors = [await author_of(client, checked) for client in (one, two, one)]
    assert authors[0] == authors[2] != authors[1]
    assert all(author.startswith("session:") for author in authors)


async def test_what_one_client_has_read_does_not_raise_the_label_of_another(root, plant, checked):
    id = plant()
    Memory.init(root, domain="open", label=Label.public)
    entry = {"domain": "open", "type": "fact", "title": "Weather", "summary": "It rains."}
    with Memory.open(root) as memory:
        app = http.build_app(memory, token=TOKEN, hosts=HOSTS)
        async with (
            running(app) as transport,
            connected(transport, "legacy") as reader,
            connected(transport, "legacy") as other,
        ):
            checked("get", await reader.call_tool("get", {"id": id}))
            raised = checked("write", await reader.call_tool("write", entry))
            kept = checked("write", await other.call_tool("write", {**entry, "title": "Sky"}))
    assert raised["label"] == "internal"
    assert kept["label"] == "public"


async def test_clients_of_the_stateless_era_share_the_session_of_their_token(app, checked):
    async with running(app) as transport:
        async with connected(transport) as one, connected(transport) as two:
            authors = [await author_of(client, checked) for client in (one, two)]
        async with connected(transport) as three:
            authors.append(await author_of(three, checked))
    assert len(set(authors)) == 1


async def test_a_session_ends_when_it_has_been_idle(app, clock, checked):
    async with running(app) as transport, connected(transport) as client:
        before = await author_of(client, checked)
        clock.seconds += 59
        still = await author_of(client, checked)
        clock.seconds += 61
        after = await author_of(client, checked)
    assert before == still != after


async def test_a_session_ends_with_its_client(app, checked):
    async with running(app) as transport:
        async with connected(transport, "legacy") as client:
            await author_of(client, checked)
            assert len(app._sessions) == 1
        assert len(app._sessions) == 0


async def test_a_header_gives_nobody_the_session_of_another(app, checked):
    async with running(app) as transport, connected(transport, "legacy") as client:
        author = await author_of(client, checked)
        [(_, session_id)] = app._sessions._held
        headers = {"authorization": f"Bearer {TOKEN}", "mcp-session-id": session_id}
        async with (
            httpx2.AsyncClient(transport=transport, headers=headers) as wire,
            Client(streamable_http_client(URL, http_client=wire)) as modern,
        ):
            assert await author_of(modern, checked) != author
        async with httpx2.AsyncClient(transport=transport, headers={**headers, **ACCEPT}) as wire:
            call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "t0", "arguments": {}}}
            guessed = await wire.post(URL, json=call, headers={"mcp-session-id": "0" * 32})
    assert guessed.status_code == 404


def test_off_loopback_a_token_must_be_given():
    for host in ("0.0.0.0", "::", "192.0.2.1", "memory.example"):
        with pytest.raises(InvalidError, match="no token was given"):
            http.check_address(host, token=None)
    for host in ("127.0.0.1", "127.0.0.2", "localhost", "::1", "[::1]"):
        assert http.check_address(host, token=None)


def test_an_address_that_stands_for_all_needs_the_hosts_that_clients_name():
    with pytest.raises(InvalidError, match="every address"):
        http.check_address("0.0.0.0", token=TOKEN)
    assert http.check_address("0.0.0.0", token=TOKEN, allowed_hosts=["memory.example"]) == ["memory.example"]
    assert http.check_address("192.0.2.1", token=TOKEN) == ["192.0.2.1"]


@pytest.mark.parametrize(
    "token", ["", "short", "x" * 15, "with a space in the middle", "line\nbreak-line-break", "ü" * 20]
)
def test_a_token_that_is_no_secret_is_refused(memory, token):
    with pytest.raises(InvalidError, match="token"):
        http.serve(memory, port=0, token=token)


def test_the_kept_token_is_made_once_and_only_the_owner_reads_it(root):
    token, path = tokens.kept_token(str(root))
    assert tokens.kept_token(str(root)) == (token, path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert path == str(root / "state" / "http-token")
    assert len(token) >= 32
    assert not [name for name in os.listdir(root / "state") if name.startswith("http-token.")]


def test_a_kept_token_that_others_may_read_is_not_used(root):
    _, path = tokens.kept_token(str(root))
    os.chmod(path, 0o644)
    with pytest.raises(InvalidError, match="others"):
        tokens.kept_token(str(root))


def test_a_kept_token_behind_a_link_is_not_followed(root, tmp_path):
    (tmp_path / "elsewhere").write_text(TOKEN)
    (root / "state").mkdir(exist_ok=True)
    (root / "state" / "http-token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnavailableError, match="http-token"):
        tokens.kept_token(str(root))


def test_an_empty_token_file_is_an_error_and_not_an_empty_token(root):
    _, path = tokens.kept_token(str(root))
    os.truncate(path, 0)
    with pytest.raises(InvalidError, match="holds no token"):
        tokens.kept_token(str(root))


def test_a_port_in_use_is_an_error_that_names_it(memory):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UnavailableError, match=str(port)):
            http.serve(memory, port=port, token=TOKEN)


@pytest.fixture
def server(root):
    """A server process on a free port; it is gone after the test."""
    process = subprocess.Popen(
        [sys.executable, "-m", "amem_server", "--root", str(root), "--http", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["interrupt", "terminate"])
async def test_a_signal_stops_it_without_a_traceback_while_a_client_is_connected(root, server, number, mode, checked):
    url = re.search(r"http://\S+", server.stderr.readline())[0]
    path = server.stderr.readline().split()[-1]
    token = (root / "state" / "http-token").read_text().strip()
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}) as wire:
        with contextlib.suppress(Exception, BaseExceptionGroup):
            async with Client(streamable_http_client(url, http_client=wire), mode=mode) as client:
                found = checked("search", await client.call_tool("search", {"query": "locks"}))
                server.send_signal(number)
                out, error = server.communicate(timeout=20)
    assert found["hits"] == []
    assert (server.returncode, out, error) == (0, "", "")
    assert path == str(root / "state" / "http-token")


async def test_it_offers_no_stream_of_its_own(app):
    headers = {**ACCEPT, "authorization": f"Bearer {TOKEN}"}
    async with running(app) as transport, httpx2.AsyncClient(transport=transport, headers=headers) as wire:
        answer = await wire.get(URL)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST, DELETE")


async def test_a_refusal_is_json_that_says_how_to_authenticate(app):
    async with running(app) as transport, httpx2.AsyncClient(transport=transport) as wire:
        answer = await wire.post(URL, json=INITIALIZE)
    assert json.loads(answer.text)["message"].endswith("Authorization: Bearer <token>")
