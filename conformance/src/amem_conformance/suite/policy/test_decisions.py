"""The table of decisions, on the engine under test."""

from __future__ import annotations

from typing import Any

import pytest

from amem_conformance.suite.policy._cases import CASES, Case, agent, draft, entry, owner
from amem_core.ports.policy import Policy


def _id(case: Case) -> str:
    return f"{case.action}:{case.name}"


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=_id(case), marks=pytest.mark.requirement(case.requirement)) for case in CASES]
)
def test_the_table_of_decisions_holds(backend: Policy, case: Case) -> None:
    decision = backend.decide(case.action, {"session": case.session, "resource": case.resource})
    assert decision.allowed is case.allowed, decision
    assert dict(decision.obligations) == dict(case.obligations)
    reasons = " ".join(decision.reasons)
    assert all(word in reasons for word in case.says), decision.reasons


@pytest.mark.requirement("policy:deny:reasons")
def test_every_refusal_says_why(backend: Policy) -> None:
    version = backend.version
    for case in CASES:
        decision = backend.decide(case.action, {"session": case.session, "resource": case.resource})
        assert decision.version == version
        assert decision.rules
        if not decision.allowed:
            assert decision.reasons
            assert all(reason.strip() for reason in decision.reasons)
            assert not decision.obligations


@pytest.mark.requirement("policy:deny:not-json")
@pytest.mark.parametrize("wrong", [{1}, b"bytes", float("nan"), float("inf"), object()])
def test_an_input_that_is_no_json_is_denied(backend: Policy, wrong: object) -> None:
    assert not backend.decide("read", {"session": owner(), "resource": entry(note=wrong)}).allowed
    assert not backend.decide("write", {"session": agent(note=wrong), "resource": draft()}).allowed


@pytest.mark.requirement("policy:deny:not-json")
@pytest.mark.parametrize("wrong", [{}, {"session": owner()}, {"resource": entry()}, {"session": [], "resource": []}])
def test_an_input_without_its_parts_is_denied(backend: Policy, wrong: dict[str, Any]) -> None:
    assert not backend.decide("read", wrong).allowed
