"""A real root on embedded backends, and clients of its server in memory."""

from __future__ import annotations

import jsonschema
import pytest
from mcp import Client

from amem_core import Memory
from amem_core.domain.entries import Draft
from amem_server.app import build_server
from amem_server.sessions import OneSession
from amem_server.tools import TOOLS


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "root"
    Memory.init(path, domain="lab")
    return path


@pytest.fixture
def memory(root):
    with Memory.open(root) as opened:
        yield opened


@pytest.fixture
def owner(memory):
    with memory.session(author="owner") as session:
        yield session


@pytest.fixture
def plant(owner):
    """Write an entry as the owner and return its id."""

    def write(title="Locks are files", summary="The ledger takes a file lock first.", **fields):
        draft = Draft(domain="lab", title=title, summary=summary, **{"type": "fact", **fields})
        return owner.write(draft).id

    return write


@pytest.fixture
def session(memory):
    with memory.session() as opened:
        yield opened


@pytest.fixture(params=["auto", "legacy"])
def client(session, request):
    """Return a client, not entered yet, of the memory's server; both eras of the protocol."""
    return Client(build_server(OneSession(session)), mode=request.param)


@pytest.fixture
def checked():
    """Check a result against the schema that its tool declares; return its structured content."""

    def check(name, result):
        assert not result.is_error, result.content[0].text
        jsonschema.validate(result.structured_content, strict(TOOLS[name].output_schema))
        return result.structured_content

    return check


def strict(schema):
    """Return the schema with undeclared keys refused, so that nothing slips out beside the declared form."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: strict(value) for key, value in schema.items()}
    return {**inner, "additionalProperties": False} if "properties" in schema else inner
