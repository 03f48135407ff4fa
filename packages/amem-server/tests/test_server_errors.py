"""What a model reads when a call is refused: what, by which rule, and what to do next."""

from __future__ import annotations

import logging

import pytest
from mcp import Client, MCPError
from mcp.types import INVALID_PARAMS

from amem_core import errors
from amem_core.domain.entries import Draft
from amem_server.app import T0_URI, build_server
from amem_server.errors import META_KEY, TABLE, refusal

pytestmark = pytest.mark.anyio


def refused(result):
    """Return the text and the program's part of a refusal."""
    assert result.is_error
    assert result.structured_content is None
    text = result.content[0].text
    assert "What to do:" in text
    return text, result.meta[META_KEY]


@pytest.mark.parametrize(
    ("tool", "arguments", "field", "rule"),
    [
        ("search", {}, "query", "required"),
        ("search", {"query": "a", "limit": 0}, "limit", "greater than or equal to 1"),
        ("search", {"query": "a", "limit": 101}, "limit", "less than or equal to 100"),
        ("search", {"query": "a", "depth": "all"}, "depth", "summaries"),
        ("search", {"query": "a", "as_of": "yesterday"}, "as_of", "2026-11-30T12:00:00Z"),
        ("search", {"query": "a", "as_of": "2026-11-30T12:00:00"}, "as_of", "offset"),
        ("search", {"query": "a", "types": "fact"}, "types", "list"),
        ("search", {"query": "a", "where": "b"}, "where", "takes no such argument"),
        ("search", {"query": "a", "session": "owner"}, "session", "takes no such argument"),
        ("write", {"type": "fact", "title": "", "summary": "b"}, "title", "at least 1"),
        ("write", {"type": "fact", "title": "a", "summary": "b", "author": "owner"}, "author", "no such argument"),
        ("write", {"type": "fact", "title": "a", "summary": "b", "label": "secret"}, "label", "restricted"),
        ("write", {"type": "fact", "title": "a", "summary": "b", "review_by": "soon"}, "review_by", "2026-11-30"),
        ("recall", {"question": "a", "budget": 99}, "budget", "100"),
        ("claim_next", {"lease_seconds": 0.5}, "lease_seconds", "1"),
        ("claim_next", {"lease_seconds": 604801}, "lease_seconds", "604800"),
        ("heartbeat", {"id": "mem-a", "fence": "x"}, "fence", "integer"),
    ],
)
async def test_wrong_arguments_are_refused_with_field_rule_and_remedy(client, tool, arguments, field, rule):
    async with client:
        text, meta = refused(await client.call_tool(tool, arguments))
    assert f"- {field}:" in text
    assert rule in text
    assert f"call {tool} again" in text
    assert meta["code"] == "invalid"
    assert meta["retryable"] is False


async def test_a_refusal_does_not_repeat_what_was_sent(client):
    sent = "sesame " * 10_000
    async with client:
        text, _ = refused(await client.call_tool("search", {"query": sent, sent: "x"}))
    assert len(text) < 2_000
    assert text.count("sesame") < 20


async def test_a_tool_that_is_not_here_is_refused_with_those_that_are(client):
    async with client:
        text, meta = refused(await client.call_tool("forget", {}))
    assert "forget" in text
    assert "search" in text
    assert meta["code"] == "not-found"


async def test_a_resource_that_is_not_here_is_an_error_of_the_protocol(client):
    async with client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource("amem://secrets")
    assert caught.value.error.code == INVALID_PARAMS
    assert T0_URI in caught.value.error.message


async def test_an_entry_that_is_not_there_is_refused_with_what_to_do(client):
    async with client:
        text, meta = refused(await client.call_tool("get", {"id": "mem-nothere"}))
    assert "mem-nothere" in text
    assert meta["code"] == "not-found"


async def test_a_name_that_could_leave_the_root_never_reaches_a_path(client):
    async with client:
        for call in (
            client.call_tool("get", {"id": "mem-../../etc"}),
            client.call_tool("search", {"query": "a", "domain": "../x"}),
            client.call_tool("write", {"type": "fact", "title": "a", "summary": "b", "domain": "../x"}),
        ):
            _, meta = refused(await call)
            assert meta["code"] == "invalid"


async def test_a_domain_must_be_named_when_the_session_holds_several(memory, root):
    from amem_core import Memory
    from amem_server.sessions import OneSession

    Memory.init(root, domain="shop")
    with Memory.open(root) as reopened, reopened.session() as session:
        async with Client(build_server(OneSession(session))) as client:
            text, _ = refused(await client.call_tool("write", {"type": "fact", "title": "a", "summary": "b"}))
            assert "lab, shop" in text
            named = await client.call_tool("write", {"type": "fact", "title": "a", "summary": "b", "domain": "shop"})
    assert named.structured_content["domain"] == "shop"


async def test_a_superseded_entry_is_superseded_once(client, plant):
    id = plant()
    again = {"type": "fact", "title": "Locks are rows", "summary": "They moved.", "supersedes": [id]}
    async with client:
        assert not (await client.call_tool("write", again)).is_error
        text, meta = refused(await client.call_tool("write", {**again, "title": "Locks are gone"}))
    assert meta["code"] == "conflict"
    assert id in text


class Raising:
    """Sessions whose every tool raises."""

    def __init__(self, error):
        self.error = error

    def of(self, ctx):
        raise self.error


async def test_an_unforeseen_error_is_logged_and_gives_nothing_away(caplog):
    server = build_server(Raising(RuntimeError("the secret is 42")))
    with caplog.at_level(logging.ERROR):
        async with Client(server) as client:
            result = await client.call_tool("search", {"query": "a"})
            with pytest.raises(MCPError) as caught:
                await client.read_resource(T0_URI)
    text, meta = refused(result)
    assert "42" not in text.replace(text.partition("logged as ")[2][:8], "")
    assert "secret" not in text + caught.value.error.message
    assert meta["code"] == "internal"
    records = [record for record in caplog.records if record.name == "amem_server.errors"]
    assert len(records) == 2
    assert all("secret" in str(record.exc_info[1]) for record in records)
    assert text.partition("logged as ")[2][:8] in records[0].getMessage()


async def test_a_backend_that_is_down_is_an_error_and_not_an_empty_answer():
    down = errors.UnavailableError("index solr at http://localhost:8983 does not answer", hint="get still works")
    async with Client(build_server(Raising(down))) as client:
        text, meta = refused(await client.call_tool("search", {"query": "a"}))
        with pytest.raises(MCPError, match="does not answer"):
            await client.read_resource(T0_URI)
    assert "could not be done now" in text
    assert "get still works" in text
    assert "try again unchanged" in text
    assert meta["retryable"] is True


def leaves(kind):
    below = kind.__subclasses__()
    return [kind, *(leaf for child in below for leaf in leaves(child))]


@pytest.mark.parametrize("kind", leaves(errors.AmemError)[1:], ids=lambda kind: kind.__name__)
def test_every_error_of_the_tree_has_its_line_in_the_table(kind):
    error = kind("the thing", hint="the remedy")
    result = refusal(error)
    text = result["content"][0]["text"]
    assert result["isError"] is True
    assert "structuredContent" not in result
    if kind is errors.InternalError:
        assert "the thing" not in text
    else:
        assert any(isinstance(error, known) for known, _, _ in TABLE)
        assert "the thing" in text
        assert "What to do: the remedy" in text
    assert result["_meta"][META_KEY]["code"] == kind.code


def test_a_denial_names_the_rules_that_it_rests_on():
    text = refusal(errors.DeniedError("write refused: above the ceiling", rules=("ceiling",)))["content"][0]["text"]
    assert "Rules: ceiling" in text
    assert "ask the owner" in text


async def test_a_read_above_the_ceiling_is_denied_or_unknown_and_never_served(client, owner):
    from amem_core.domain.labels import Label

    draft = Draft(domain="lab", type="fact", title="Pin", summary="0000", label=Label.restricted)
    id = owner.write(draft).id
    async with client:
        text, meta = refused(await client.call_tool("get", {"id": id}))
        found = await client.call_tool("search", {"query": "pin"})
    assert meta["code"] in {"denied", "not-found"}
    assert "0000" not in text
    assert found.structured_content["hits"] == []
