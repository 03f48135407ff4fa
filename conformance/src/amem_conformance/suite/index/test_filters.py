"""What a session may not read, and what the caller excludes, is never among the answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from amem_conformance.suite.index._making import DOMAIN, EVERYTHING, START, ask, day, doc, listed, put
from amem_core.domain.fingerprints import fingerprint
from amem_core.domain.labels import Label, Status, Tier
from amem_core.domain.queries import CLOSED, Conditions, Query, ReadFilter
from amem_core.errors import InvalidError
from amem_core.ports.index import Index

DOMAIN_NAMES = ["my-project", "main", "default", "null", "true", "2026", "a_b", "select"]


@pytest.mark.requirement("index:filter:readable")
def test_only_readable_domains_answer_each_up_to_its_own_label(backend: Index) -> None:
    for domain in ("one", "two", "three"):
        put(backend, *[doc(f"{domain}-{label}", "walrus", domain=domain, classification=label) for label in Label])
    readable = ReadFilter({"one": Label.internal, "two": Label.restricted, "elsewhere": Label.restricted})
    expected = ["one-internal", "one-public", "two-confidential", "two-internal", "two-public", "two-restricted"]
    assert sorted(ask(backend, "walrus", readable, limit=20)) == expected
    assert sorted(listed(backend, readable)) == expected
    assert ask(backend, "walrus", ReadFilter({"three": Label.public})) == ["three-public"]


@pytest.mark.requirement("index:filter:closed")
def test_a_session_that_may_read_nothing_finds_nothing(backend: Index) -> None:
    put(backend, doc("a", "walrus", classification=Label.public))
    assert ask(backend, "walrus", CLOSED) == []
    assert listed(backend, CLOSED) == []
    assert ask(backend, "walrus", ReadFilter({"other": Label.restricted})) == []


@pytest.mark.requirement("index:filter:many-domains")
def test_a_session_may_read_thousands_of_domains(backend: Index) -> None:
    put(backend, doc("a", "walrus"), doc("b", "walrus", domain="closed"))
    many = {f"d{number}": Label(number % 4) for number in range(3000)}
    readable = ReadFilter({**many, DOMAIN: Label.internal})
    assert ask(backend, "walrus", readable) == ["a"]
    assert listed(backend, readable) == ["a"]


@pytest.mark.requirement("index:filter:domain-words")
@pytest.mark.parametrize("domain", DOMAIN_NAMES)
def test_an_entry_is_visible_in_its_own_domain_and_in_no_other(backend: Index, domain: str) -> None:
    for name in DOMAIN_NAMES:
        put(backend, doc(name, f"walrus of {name}", domain=name))
    assert ask(backend, "walrus", ReadFilter({domain: Label.restricted})) == [domain]
    assert listed(backend, ReadFilter({domain: Label.restricted})) == [domain]
    others = ReadFilter({name: Label.restricted for name in DOMAIN_NAMES if name != domain})
    assert domain not in ask(backend, "walrus", others, limit=20)


SAME = fingerprint(type="idea", title="untitled", summary="unsaid", body="walrus")
CASES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"types": ("decision",)}, {"type": "decision"}, {"type": "fact"}),
    ({"types": ("decision", "idea")}, {"type": "idea"}, {"type": "fact"}),
    ({"tiers": (Tier.verified,)}, {"trust_tier": Tier.verified}, {"trust_tier": Tier.curated}),
    ({"tiers": (Tier.raw, Tier.verified)}, {"trust_tier": Tier.raw}, {"trust_tier": Tier.curated}),
    ({"authors": ("session:a",)}, {"author": "session:a"}, {"author": "session:ab"}),
    ({"authors": ("owner", "tap:x")}, {"author": "tap:x"}, {"author": "session:x"}),
    ({"tags": ("x",)}, {"tags": ("w", "x", "y")}, {"tags": ("xy", "X")}),
    ({"tags": ("x", "y")}, {"tags": ("y", "z", "x")}, {"tags": ("x",)}),
    ({"tags": ("x y",)}, {"tags": ("x y",)}, {"tags": ("x", "y")}),
    ({"tags": ("a\nb",)}, {"tags": ("a\nb",)}, {"tags": ("a", "b")}),
    ({"tags": ("a\\nb",)}, {"tags": ("a\\nb",)}, {"tags": ("a\nb",)}),
    ({"tags": ("%",)}, {"tags": ("%",)}, {"tags": ("any",)}),
    ({"tags": ('"',)}, {"tags": ('"',)}, {"tags": ("','",)}),
    ({"any_tags": ("x", "y")}, {"tags": ("y", "z")}, {"tags": ("z", "xy")}),
    ({"any_tags": ("x", "y"), "tags": ("z",)}, {"tags": ("y", "z")}, {"tags": ("x", "y")}),
    ({"fingerprint": SAME}, {"type": "idea"}, {"type": "fact"}),
    ({"fingerprint": SAME}, {"type": "idea"}, {"type": "idea", "title": "another"}),
    ({"highest_label": Label.internal}, {"classification": Label.internal}, {"classification": Label.confidential}),
    ({"highest_label": Label.public}, {"classification": Label.public}, {"classification": Label.internal}),
    ({"created_from": day(1)}, {"created": day(1)}, {"created": day(0.999)}),
    ({"created_until": day(1)}, {"created": day(0.999)}, {"created": day(1)}),
    ({"always_load": True}, {"always_load": True}, {"always_load": False}),
    ({"always_load": False}, {"always_load": False}, {"always_load": True}),
    ({"source_prefix": "file:a"}, {"source": ("mem-1", "file:a/b")}, {"source": ("x-file:a", "file:b")}),
    ({"source_prefix": "file:a_"}, {"source": ("file:a_b",)}, {"source": ("file:axb", "file:A_b")}),
    ({"statuses": (Status.archived,)}, {"status": Status.archived}, {"status": Status.active}),
    ({"statuses": (Status.active, Status.demoted)}, {"status": Status.demoted}, {"status": Status.archived}),
]


@pytest.mark.requirement("index:filter:conditions")
@pytest.mark.parametrize(("only", "kept", "dropped"), CASES)
def test_a_condition_keeps_what_meets_it_and_nothing_else(
    backend: Index, only: dict[str, Any], kept: dict[str, Any], dropped: dict[str, Any]
) -> None:
    put(backend, doc("kept", "walrus", **kept), doc("dropped", "walrus", **dropped))
    assert ask(backend, "walrus", only=only) == ["kept"]
    assert listed(backend, only=only) == ["kept"]


@pytest.mark.requirement("index:filter:all-conditions")
def test_of_several_conditions_all_must_hold(backend: Index) -> None:
    fields: dict[str, Any] = {"type": "decision", "tags": ("x",), "trust_tier": Tier.verified}
    others: list[dict[str, Any]] = [{"type": "fact"}, {"tags": ()}, {"trust_tier": Tier.raw}]
    put(backend, doc("a", "walrus", **fields))
    put(backend, *[doc(f"b{number}", "walrus", **(fields | other)) for number, other in enumerate(others)])
    only = {"types": ("decision",), "tags": ("x",), "tiers": (Tier.verified,)}
    assert ask(backend, "walrus", only=only) == ["a"]
    assert listed(backend, only=only) == ["a"]


@pytest.mark.requirement("index:filter:active-by-default")
def test_only_active_entries_compete_unless_asked_otherwise(backend: Index) -> None:
    put(backend, *[doc(status.value, "walrus", status=status) for status in Status])
    assert ask(backend, "walrus") == ["active"]
    assert listed(backend) == ["active"]
    assert sorted(ask(backend, "walrus", only={"statuses": ()})) == sorted(status.value for status in Status)
    assert sorted(listed(backend, only={"statuses": tuple(Status)})) == sorted(status.value for status in Status)


@pytest.mark.requirement("index:filter:inside-the-query")
def test_one_readable_entry_is_found_behind_hundreds_that_rank_higher(backend: Index) -> None:
    secret = [doc(f"s{n:03}", "walrus", title="walrus", classification=Label.restricted) for n in range(300)]
    closed = [doc(f"c{n:03}", "walrus", title="walrus", domain="closed") for n in range(300)]
    put(backend, *secret, *closed, doc("open", "far down " * 50 + "walrus", classification=Label.public))
    assert ask(backend, "walrus", ReadFilter({DOMAIN: Label.public}), limit=1) == ["open"]
    assert ask(backend, "walrus", only={"highest_label": Label.public}, limit=1) == ["open"]


@pytest.mark.requirement("index:filter:naive-time")
def test_a_time_without_an_offset_is_refused(backend: Index) -> None:
    naive = START.replace(tzinfo=None)
    query = Query(text="walrus", readable=EVERYTHING)
    for refused in (
        lambda: backend.search(query._replace(as_of=naive)),
        lambda: backend.search(query._replace(valid_at=naive)),
        lambda: backend.select(EVERYTHING, Conditions(created_from=naive)),
        lambda: backend.select(EVERYTHING, Conditions(created_until=naive)),
        lambda: backend.apply(DOMAIN, [replace(doc("a"), known_from=naive)], through=1),
    ):
        with pytest.raises(InvalidError, match="offset"):
            refused()
