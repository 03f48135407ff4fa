"""A root with one domain, opened with a clock and ids that a test moves."""

from __future__ import annotations

import shutil

import pytest
from bundles import NamedIds, eventful, fact

from amem_core import Label, Memory
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


@pytest.fixture
def opened(tmp_path, clock):
    """Return what opens new roots by name as their owner, all under one clock, each with ids of its own."""
    sessions = {}

    def open_root(name):
        if name not in sessions:
            path = str(tmp_path / name)
            Memory.init(path, domain="notes")
            memory = Memory.open(path, clock=clock, ids=NamedIds(name))
            sessions[name] = (memory, memory.session(author="owner"))
        return sessions[name][1]

    yield open_root
    for memory, session in sessions.values():
        session.close()
        memory.close()


@pytest.fixture
def elsewhere(opened):
    """The owner of another root."""
    return opened("elsewhere")


@pytest.fixture
def bundle(owner, tmp_path):
    """A bundle of one entry; another was withheld."""
    owner.write(fact("Coding: Rules v1.2", "Use when: x # not a comment", aliases=("*Italic*",), label=Label.internal))
    owner.write(fact("Secret", "not to leave", label=Label.restricted))
    path = str(tmp_path / "bundle")
    exported = owner.export("notes", path, max_label=Label.internal)
    assert (exported.entries, exported.withheld, exported.highest_label) == (1, 1, Label.internal)
    return path


@pytest.fixture(scope="session")
def eventful_once(tmp_path_factory):
    """A root in which everything happened, its bundle, and the entries' ids by what became of them."""
    top = tmp_path_factory.mktemp("eventful")
    ids = eventful(str(top / "root"), str(top / "bundle"), str(top))
    return top, ids


@pytest.fixture
def full(eventful_once, tmp_path):
    """A bundle of a record in which everything happened, and the ids in it."""
    top, ids = eventful_once
    path = str(tmp_path / "full")
    shutil.copytree(top / "bundle", path)
    return path, ids
