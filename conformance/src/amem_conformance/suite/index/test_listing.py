"""A listing has an order and no rank; one id is found wherever it is."""

from __future__ import annotations

import pytest

from amem_conformance.suite.index._making import DOMAIN, EVERYTHING, START, day, doc, listed, put
from amem_core.domain.labels import Label, Status, Tier
from amem_core.domain.queries import Conditions, Hit
from amem_core.ports.index import Index, Kept


@pytest.mark.requirement("index:select:order")
def test_a_listing_is_ordered_by_creation_and_id(backend: Index) -> None:
    put(backend, doc("d", created=day(1)), doc("a", created=day(2)), doc("c"), doc("b", created=day(1)))
    assert listed(backend) == ["a", "d", "b", "c"]
    assert listed(backend, order="oldest") == ["c", "b", "d", "a"]
    assert listed(backend, order="id") == ["a", "b", "c", "d"]


@pytest.mark.requirement("index:select:order")
def test_a_listing_over_domains_types_and_statuses_keeps_its_order(backend: Index) -> None:
    put(
        backend,
        doc("d", created=day(3), type="idea"),
        doc("a", created=day(2), status=Status.archived),
        doc("c", created=day(1), always_load=True),
    )
    assert listed(backend, only={"statuses": (), "types": ("fact", "idea")}) == ["d", "a", "c"]
    assert listed(backend, only={"always_load": True}) == ["c"]


@pytest.mark.requirement("index:select:limit")
def test_a_listing_keeps_its_limit(backend: Index) -> None:
    put(backend, *[doc(f"n{number:03}", created=day(number)) for number in range(120)])
    assert len(listed(backend)) == 100
    assert listed(backend, limit=2) == ["n119", "n118"]
    assert listed(backend, limit=0) == []
    assert len(listed(backend, limit=10**6)) == 120


@pytest.mark.requirement("index:versions:every")
def test_every_version_is_listed_by_id_and_number_with_the_label_that_it_is_shown_under(backend: Index) -> None:
    put(
        backend,
        doc("b", version=2, classification=Label.confidential, status=Status.superseded),
        doc("b", version=1, known=7),
        doc("a"),
        doc("a-b"),
        doc("z", domain="other"),
    )
    every = [
        Kept("mem-a", 1, "digest-a-1", day(1), Label.internal, Status.active),
        Kept("mem-a-b", 1, "digest-a-b-1", day(1), Label.internal, Status.active),
        Kept("mem-b", 1, "digest-b-1", day(7), Label.confidential, Status.active),
        Kept("mem-b", 2, "digest-b-2", day(2), Label.confidential, Status.superseded),
    ]
    assert list(backend.versions(DOMAIN)) == every
    assert list(backend.versions(DOMAIN, "mem-b")) == every[2:]
    assert list(backend.versions(DOMAIN, "mem-a")) == every[:1]
    assert list(backend.versions(DOMAIN, "mem-z")) == []
    assert list(backend.versions("never")) == []
    backend.forget(DOMAIN, "mem-b", None)
    assert list(backend.versions(DOMAIN)) == every[:2]
    backend.rebuild(DOMAIN, [doc("c")], through=1)
    assert [kept.id for kept in backend.versions(DOMAIN)] == ["mem-c"]


@pytest.mark.requirement("index:versions:many")
def test_a_long_listing_gives_each_version_once_whatever_is_written_beside_it(backend: Index) -> None:
    put(backend, *[doc(f"n{number:04}", version=version) for number in range(600) for version in (1, 2)])
    found: list[tuple[str, int]] = []
    for number, kept in enumerate(backend.versions(DOMAIN)):
        found.append((kept.id, kept.version))
        if number == 5:
            # The same thread asks and writes while it lists.
            put(backend, doc("n0000", version=3), doc("zz"))
            assert backend.find("mem-zz") is not None
    assert [key for key in found if key != ("mem-zz", 1)] == [
        (f"mem-n{number:04}", version) for number in range(600) for version in (1, 2)
    ]


@pytest.mark.requirement("index:hit:card")
def test_a_hit_carries_the_card_of_its_version(backend: Index) -> None:
    document = doc(
        "a",
        "walrus",
        title="Coding: Rules v1.2",
        summary="Use when: x # not a comment",
        type="decision",
        author="session:s1",
        trust_tier=Tier.curated,
        status=Status.superseded,
        source=("file:a\nb", 'http://x/"y"'),
        tags=("t1", "t 2"),
        superseded_by="mem-b",
        updated=day(3),
    )
    put(backend, document)
    assert backend.find("mem-a") == Hit(
        id="mem-a",
        version=1,
        domain=DOMAIN,
        type="decision",
        title="Coding: Rules v1.2",
        summary="Use when: x # not a comment",
        author="session:s1",
        label=Label.internal,
        tier=Tier.curated,
        status=Status.superseded,
        created=START,
        updated=day(3),
        digest="digest-a-1",
        source=("file:a\nb", 'http://x/"y"'),
        tags=("t1", "t 2"),
        superseded_by="mem-b",
    )
    assert backend.select(EVERYTHING, Conditions(statuses=())) == [backend.find("mem-a")]


@pytest.mark.requirement("index:find:newest")
def test_find_gives_the_newest_version_in_whatever_domain_and_status(backend: Index) -> None:
    put(backend, doc("a"), doc("a", version=2, status=Status.quarantined))
    put(backend, doc("b", domain="other", classification=Label.restricted))
    found = backend.find("mem-a")
    assert found is not None
    assert (found.version, found.status) == (2, Status.quarantined)
    other = backend.find("mem-b")
    assert other is not None
    assert (other.domain, other.label) == ("other", Label.restricted)


@pytest.mark.requirement("index:find:exact-id")
@pytest.mark.parametrize("id", ["mem-abc", "mem-", "", "mem-a%", "mem-A", "mem-\ud800", "a"])
def test_find_gives_none_for_an_id_that_is_not_there(backend: Index, id: str) -> None:
    put(backend, doc("a"), doc("ab"))
    assert backend.find(id) is None
