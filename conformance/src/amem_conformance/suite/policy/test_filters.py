"""The residual that goes into every index query."""

from __future__ import annotations

from typing import Any

import pytest

from amem_conformance.suite.policy._cases import SESSIONS, agent, entry, owner
from amem_core.domain.labels import Label
from amem_core.ports.policy import Policy

_SESSIONS = [
    agent(),
    agent(domains=["open"]),
    agent(domains=["open", "elsewhere", "orphan"]),
    agent(domains=[]),
    agent(destination="house", ceiling="confidential"),
    agent(ceiling="restricted"),
    agent(ceiling="public"),
    owner(),
    owner(destination="model"),
    owner(ceiling="internal", domains=["secret"]),
    *({**(case.session or {}), "ceiling": "internal"} for case in SESSIONS if not case.allowed),
]


@pytest.mark.requirement("policy:filter:ceiling")
def test_the_filter_names_each_held_domain_with_the_ceiling(backend: Policy) -> None:
    everywhere = {"notes", "open", "secret"}
    assert backend.read_filter(agent()).domains == dict.fromkeys(everywhere, Label.internal)
    assert backend.read_filter(owner()).domains == dict.fromkeys(everywhere, Label.restricted)
    assert backend.read_filter(agent(domains=["open"])).domains == {"open": Label.internal}
    assert backend.read_filter(agent(ceiling="restricted")).domains == dict.fromkeys(everywhere, Label.internal)
    assert backend.read_filter(agent(ceiling="public")).domains == dict.fromkeys(everywhere, Label.public)
    assert backend.read_filter(agent(domains=[])).domains == {}


@pytest.mark.requirement("policy:filter:closed")
@pytest.mark.parametrize(
    "session",
    [
        agent(destination="nowhere"),
        agent(destination=None),
        agent(author="owner"),
        agent(ceiling=None),
        agent(ceiling=0),
        agent(domains=False),
        owner(author="session:one"),
        {},
    ],
)
def test_a_session_that_would_be_refused_reads_nothing(backend: Policy, session: dict[str, Any]) -> None:
    assert backend.read_filter(session).domains == {}


@pytest.mark.requirement("policy:filter:agrees")
def test_the_filter_and_the_decision_agree_on_every_entry(backend: Policy) -> None:
    for session in _SESSIONS:
        readable = backend.read_filter(session)
        for domain in ("notes", "open", "secret", "orphan", "elsewhere"):
            for label in Label:
                resource = entry(domain=domain, label=str(label))
                decision = backend.decide("read", {"session": session, "resource": resource})
                assert decision.allowed is readable.allows(domain, label), (session, resource, decision)
