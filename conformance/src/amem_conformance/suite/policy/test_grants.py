"""Grants that change, break, or are not there; and who may ask from where."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from amem_conformance.suite.policy._cases import GRANTS, agent, draft, entry, owner
from amem_core.domain.labels import Label
from amem_core.errors import AmemError, ConfigError
from amem_core.ports.policy import Policy, SupportsInit

_READ = {"session": agent(), "resource": entry()}


@pytest.mark.requirement("policy:deny:no-grants")
def test_a_root_without_grants_denies_everything(grants: Path, reopen: Callable[[], Policy]) -> None:
    grants.unlink()
    policy = reopen()
    for action in ("session", "read", "write", "export", "fly"):
        decision = policy.decide(action, {"session": owner(), "resource": draft()})
        assert not decision.allowed
        assert decision.reasons
    assert policy.read_filter(owner()).domains == {}
    assert policy.domains() == []
    assert policy.version


@pytest.mark.requirement("policy:version:stable")
def test_the_version_follows_the_grants(backend: Policy, grants: Path, second: Callable[[], Policy]) -> None:
    before = backend.version
    assert second().version == before
    grants.write_text(GRANTS + "# a comment\n", encoding="utf-8")
    assert backend.version != before
    assert second().version == backend.version


@pytest.mark.requirement("policy:grants:changed")
def test_changed_grants_count_at_the_next_decision(backend: Policy, grants: Path) -> None:
    first = backend.decide("read", _READ)
    assert first.allowed
    grants.write_text(
        GRANTS.replace('[destinations.model]\nceiling = "internal"', '[destinations.model]\nceiling = "public"')
    )
    later = backend.decide("read", _READ)
    assert not later.allowed
    assert later.version != first.version
    assert backend.read_filter(agent()).domains["notes"] is Label.public
    grants.write_text(GRANTS)
    assert backend.decide("read", _READ).allowed
    grants.unlink()
    assert not backend.decide("read", _READ).allowed


@pytest.mark.requirement("policy:grants:broken")
@pytest.mark.parametrize("text", ["[domains", "format = 1\n[domains.notes\n", "\udcff"])
def test_grants_that_break_deny_until_they_are_mended(backend: Policy, grants: Path, text: str) -> None:
    grants.write_bytes(text.encode(errors="surrogateescape"))
    decision = backend.decide("read", _READ)
    assert not decision.allowed
    assert "grants.toml" in " ".join(decision.reasons)
    assert backend.read_filter(owner()).domains == {}
    grants.write_text(GRANTS)
    assert backend.decide("read", _READ).allowed


@pytest.mark.requirement("policy:grants:broken-at-open")
def test_broken_grants_are_an_error_at_opening(backend: Policy, grants: Path, second: Callable[[], Policy]) -> None:
    grants.write_text(GRANTS + "\n[domains.notes]\n")
    with pytest.raises(ConfigError) as caught:
        second()
    assert "grants.toml" in str(caught.value)
    assert "line" in str(caught.value)
    assert not backend.decide("read", _READ).allowed


@pytest.mark.requirement("policy:grants:domains")
def test_the_domains_of_the_grants_are_listed(backend: Policy) -> None:
    assert backend.domains() == ["notes", "open", "orphan", "secret"]


@pytest.mark.requirement("policy:init:domain")
def test_a_new_domain_is_granted_at_once(backend: Policy) -> None:
    policy = cast("SupportsInit", backend)
    assert policy.init_domain("fresh", None) is True
    assert policy.init_domain("sealed", Label.restricted) is True
    assert policy.init_domain("fresh", Label.public) is False
    assert backend.domains() == ["fresh", "notes", "open", "orphan", "sealed", "secret"]
    written = backend.decide("write", {"session": owner(), "resource": draft(domain="sealed")})
    assert written.obligations == {"label": "restricted"}
    assert backend.decide("write", {"session": agent(), "resource": draft(domain="fresh")}).obligations == {
        "label": "internal"
    }
    assert backend.decide("read", _READ).allowed


@pytest.mark.requirement("policy:init:domain")
def test_a_first_domain_makes_grants_under_which_an_agent_can_work(grants: Path, reopen: Callable[[], Policy]) -> None:
    grants.unlink()
    policy = reopen()
    assert cast("SupportsInit", policy).init_domain("fresh", None) is True
    assert policy.decide("session", {"session": agent(), "resource": {}}).obligations == {"ceiling": "internal"}
    assert policy.decide("write", {"session": agent(), "resource": draft(domain="fresh")}).allowed
    exported = policy.decide("export", {"session": owner(), "resource": {"domain": "fresh", "max_label": None}})
    assert exported.obligations == {"max_label": "internal"}


@pytest.mark.requirement("policy:threads:foreign")
def test_threads_that_did_not_open_the_policy_get_the_same_decisions(backend: Policy, grants: Path) -> None:
    wrong: list[object] = []
    gate = threading.Barrier(9)

    def ask() -> None:
        gate.wait()
        try:
            for number in range(20):
                seen = backend.decide("read", {"session": agent(), "resource": entry(id=f"mem-{number}")})
                above = backend.decide("read", {"session": agent(), "resource": entry(label="restricted")})
                if not seen.allowed or above.allowed or len(backend.read_filter(agent()).domains) != 3:
                    wrong.append((seen, above))
        except AmemError as exc:
            wrong.append(exc)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    gate.wait()
    for _ in range(5):
        grants.touch()
        backend.decide("read", _READ)
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.requirement("policy:close:idempotent")
def test_closing_again_does_nothing(backend: Policy) -> None:
    backend.decide("read", _READ)
    backend.close()
    backend.close()
