"""Rejecting over MCP: an agent takes a wrong statement out of use, and cannot bring it back or take out what holds."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.anyio

WRONG = "The staging box listens on port 8080, behind the proxy."
AGAIN = {"type": "fact", "title": "Where it listens", "summary": WRONG.upper()}


async def test_a_rejected_statement_is_served_no_more_and_refused_with_its_reason(client, plant, checked):
    id = plant("Port", WRONG)
    child = plant("Proxy", "So the proxy forwards to it.", derived_from=(id,))
    async with client:
        done = checked("reject", await client.call_tool("reject", {"id": id, "reason": "that was the old box"}))
        found = checked("search", await client.call_tool("search", {"query": "staging box"}))
        read = checked("get", await client.call_tool("get", {"id": id}))
        refused = await client.call_tool("write", AGAIN)
        twice = await client.call_tool("reject", {"id": id, "reason": "again"})
    assert (done["id"], done["version"], done["flagged"]) == (id, 2, [child])
    assert id not in [hit["id"] for hit in found["hits"]]
    assert "that was the old box" in str(read["notices"])
    assert refused.is_error
    assert "that was the old box" in refused.content[0].text
    assert f"amem lift {id}" in refused.content[0].text
    assert twice.is_error
    assert "rejected already" in twice.content[0].text


async def test_an_agent_rejects_neither_what_was_verified_nor_policy_nor_what_it_cannot_read(client, plant, owner):
    sure = plant("Sure", "Somebody has checked this statement.")
    owner.verify(sure, oracle="human", evidence="seen", by="the lead")
    kept = [
        sure,
        plant("Rule", "Every change has a reviewer.", type="policy"),
        plant("Vault", "Ours.", label="restricted"),
    ]
    async with client:
        for id in [*kept, "mem-unknown"]:
            refused = await client.call_tool("reject", {"id": id, "reason": "I doubt it"})
            assert refused.is_error, id
    assert [owner.get(id).entry.rejected for id in kept] == [(), (), ()]


@pytest.mark.parametrize("reason", ["", "   ", "\u200b", None, 7])
async def test_a_rejection_without_a_reason_is_refused(client, plant, owner, reason):
    id = plant("Port", WRONG)
    async with client:
        assert (await client.call_tool("reject", {"id": id, "reason": reason})).is_error
        assert (await client.call_tool("reject", {"id": id})).is_error
    assert owner.get(id).entry.version == 1


async def test_a_reason_above_the_ceiling_does_not_reach_the_model(client, plant, owner):
    owner.reject(plant("Port", WRONG, label="restricted"), reason="the quokka of the board said so")
    async with client:
        refused = await client.call_tool("write", AGAIN)
    assert refused.is_error
    assert "above this session's ceiling" in refused.content[0].text
    assert "quokka" not in str(refused)


async def test_neither_lifting_nor_verifying_is_a_tool(client):
    async with client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert "reject" in names
    assert not names & {"lift", "verify", "erase"}
