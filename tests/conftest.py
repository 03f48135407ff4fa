"""A root with one domain, opened with a clock and ids that a test moves."""

from __future__ import annotations

import pytest

from amem_core import Memory
from amem_core.testing import CountingIds, FrozenClock


@pytest.fixture
def clock():
    return FrozenClock()


@pytest.fixture
def root(tmp_path):
    path = str(tmp_path / "root")
    Memory.init(path, domain="notes")
    return path


@pytest.fixture
def memory(root, clock):
    with Memory.open(root, clock=clock, ids=CountingIds()) as opened:
        yield opened


@pytest.fixture
def owner(memory):
    with memory.session(author="owner") as session:
        yield session


@pytest.fixture
def agent(memory):
    with memory.session(author="session:one") as session:
        yield session
