"""The server as a harness starts it: another process, spoken to over its standard input and output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from mcp import Client, StdioServerParameters

pytestmark = pytest.mark.anyio

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
NOISE = """
    import ctypes, os, subprocess, sys
    from amem_core.session import Session
    kept, real = sys.stdout, Session.search
    print("noise before serving")

    def noisy(self, *args, **kwargs):
        print("noise: print")
        print("noise: unflushed", end="")
        print("noise: kept stdout", file=kept)
        sys.__stdout__.write("noise: the first stdout")
        sys.stdout.buffer.write(b"noise: buffer")
        os.write(1, b"noise: descriptor 1")
        os.system("echo noise: shell; cat")
        subprocess.run([sys.executable, "-c", "print('noise: child', input() if False else '')"])
        ctypes.CDLL(None).puts(b"noise: libc")
        return real(self, *args, **kwargs)

    Session.search = noisy
"""


def call(number, name, **arguments):
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def command(root, before=""):
    code = textwrap.dedent(before) + textwrap.dedent(f"""
        from amem_core import Memory
        from amem_server import stdio
        with Memory.open({str(root)!r}) as memory:
            stdio.serve(memory)
    """)
    return [sys.executable, "-c", code]


@pytest.fixture
def start(root):
    """Start a server process with pipes; it is gone after the test."""
    started = []

    def start(before="", **options):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        started.append(subprocess.Popen(command(root, before), **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def send(process, *messages):
    process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    process.stdin.flush()


def receive(process):
    return json.loads(process.stdout.readline())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_in_another_process_writes_searches_and_ends_it(root, mode, checked):
    module = ["-m", "amem_server", "--root", str(root)]
    server = StdioServerParameters(command=sys.executable, args=module, env=dict(os.environ))
    async with Client(server, mode=mode) as client:
        assert len((await client.list_tools()).tools) == 12
        entry = {"type": "fact", "title": "Locks are files", "summary": "The ledger takes one first."}
        written = checked("write", await client.call_tool("write", entry))
        found = checked("search", await client.call_tool("search", {"query": "locks"}))
        first = await client.read_resource("amem://t0")
    assert [hit["id"] for hit in found["hits"]] == [written["id"]]
    assert first.contents[0].text


def test_a_client_that_closes_its_end_is_answered_first_and_ends_the_server_with_success(start):
    process = start()
    send(process, INITIALIZE, INITIALIZED, call(2, "search", query="locks"))
    assert receive(process)["result"]["serverInfo"]["name"] == "amem"
    assert receive(process)["result"]["structuredContent"]["hits"] == []
    out, error = process.communicate(timeout=20)
    assert (process.returncode, out, error) == (0, b"", b"")


def test_a_client_that_goes_away_without_reading_ends_the_server_with_success(start):
    process = start()
    process.stdout.close()
    send(process, INITIALIZE, INITIALIZED, *(call(number, "t0") for number in range(2, 9)))
    process.stdin.close()
    error = process.stderr.read()
    assert (process.wait(timeout=20), error) == (0, b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["interrupt", "terminate"])
@pytest.mark.parametrize("handshake", [False, True], ids=["fresh", "in session"])
def test_a_signal_ends_it_at_once_without_a_traceback(start, number, handshake):
    process = start("import sys; sys.stderr.write('here\\n'); sys.stderr.flush()")
    process.stderr.readline()
    send(process, INITIALIZE)
    receive(process)
    if handshake:
        send(process, INITIALIZED, call(2, "search", query="locks"))
        receive(process)
    process.send_signal(number)
    out, error = process.stdout.read(), process.stderr.read()
    assert (process.wait(timeout=20), out, error) == (0, b"", b"")


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_plugin_that_prints_when_it_is_called_does_not_touch_the_wire(start, unbuffered):
    process = start(NOISE, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
    if unbuffered:
        assert process.stdout.readline() == b"noise before serving\n"
    send(process, INITIALIZE, INITIALIZED, call(2, "search", query="locks"))
    assert receive(process)["id"] == 1
    assert receive(process)["id"] == 2
    send(process, call(3, "search", query="locks"))
    assert receive(process)["id"] == 3
    out, error = process.communicate(timeout=20)
    assert out == b""
    assert process.returncode == 0
    assert b"Traceback" not in error
    assert (b"noise before serving" in error) is not bool(unbuffered)
    for kind in (
        "print",
        "unflushed",
        "kept stdout",
        "first stdout",
        "buffer",
        "descriptor 1",
        "shell",
        "child",
        "libc",
    ):
        assert kind.encode() in error


def test_a_line_that_is_no_message_does_not_end_the_session(start):
    process = start()
    send(process, INITIALIZE, INITIALIZED)
    receive(process)
    process.stdin.write(b"this is no json\n\n\xff\xfe\n{}\n")
    send(process, call(2, "t0"))
    answers = []
    while not answers or answers[-1].get("id") != 2:
        answers.append(receive(process))
    assert "result" in answers[-1]


def test_a_large_answer_arrives_whole_though_the_client_is_slow_to_read(start, owner):
    from amem_core.domain.entries import Draft

    body = "\n".join(f"Line {number} of a long text, with ünïcödé." for number in range(20_000))
    id = owner.write(Draft(domain="lab", type="fact", title="Long", summary="It is long.", body=body)).id
    process = start()
    send(process, INITIALIZE, INITIALIZED, *(call(number, "get", id=id) for number in range(2, 6)))
    receive(process)
    answers = [receive(process) for _ in range(4)]
    assert {answer["id"] for answer in answers} == {2, 3, 4, 5}
    assert all("Line 19999 of" in answer["result"]["structuredContent"]["text"] for answer in answers)


def test_requests_may_come_from_a_file_and_answers_go_into_one(start, tmp_path):
    asked, answered = tmp_path / "asked", tmp_path / "answered"
    asked.write_text("".join(json.dumps(message) + "\n" for message in (INITIALIZE, INITIALIZED)))
    with asked.open("rb") as source, answered.open("wb") as wire:
        process = start(stdin=source, stdout=wire)
        assert process.stderr.read() == b""
    assert process.wait(timeout=20) == 0
    assert [json.loads(line)["id"] for line in answered.read_text().splitlines()] == [1]


def test_each_process_is_a_session_of_its_own(start):
    authors = []
    for number in range(2):
        process = start()
        entry = {"type": "fact", "title": f"Note {number}", "summary": "Who wrote it?"}
        send(process, INITIALIZE, INITIALIZED, call(2, "write", **entry))
        receive(process)
        id = receive(process)["result"]["structuredContent"]["id"]
        send(process, call(3, "get", id=id))
        authors.append(receive(process)["result"]["structuredContent"]["author"])
    assert authors[0] != authors[1]


def test_a_root_that_is_none_is_a_message_and_not_a_traceback(tmp_path):
    module = [sys.executable, "-m", "amem_server", "--root", str(tmp_path / "nothing")]
    done = subprocess.run(module, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no amem root" in done.stderr
    assert "Traceback" not in done.stderr
