"""Whatever the history, the index answers as the obvious one in memory does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import date, datetime
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amem_conformance.suite.index._making import day, doc, put
from amem_core.domain.entries import Document
from amem_core.domain.labels import Label, Status, Tier
from amem_core.domain.queries import Conditions, Hit, Query, ReadFilter
from amem_core.ports.index import Index
from amem_core.reference.index import open_index

# Words that no stemmer and no list of common words touches.
WORDS = ["walrus", "oyster", "karpenter", "zanzibar", "foo-bar", "c++", "用户喜欢"]
DOMAINS = ["one", "two", "three"]
TYPES = ["fact", "decision", "idea"]
TAGS = ["x", "y", "z"]

instants = st.integers(-1, 6).map(lambda half: day(half / 2))
spans = st.none() | instants | st.sampled_from([date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3)])
texts = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    number = draw(st.integers(0, 5))
    version = draw(st.integers(1, 3))
    return doc(
        f"n{number}",
        draw(texts),
        version=version,
        known=draw(st.integers(0, 5)) / 2,
        domain=DOMAINS[number % 2],
        title=draw(texts),
        type=draw(st.sampled_from(TYPES)),
        classification=draw(st.sampled_from(list(Label))),
        trust_tier=draw(st.sampled_from(list(Tier))),
        status=draw(st.sampled_from([Status.active, Status.active, Status.superseded, Status.archived])),
        tags=tuple(draw(st.lists(st.sampled_from(TAGS), unique=True))),
        created=draw(instants),
        valid_from=draw(spans),
        valid_until=draw(spans),
        always_load=draw(st.booleans()),
    )


def some(values: list[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(st.sampled_from(values), max_size=2, unique=True).map(tuple)


conditions = st.builds(
    Conditions,
    types=some(TYPES),
    statuses=st.just((Status.active,)) | some(list(Status)),
    tiers=some(list(Tier)),
    tags=some(TAGS),
    highest_label=st.none() | st.sampled_from(list(Label)),
    created_from=st.none() | instants,
    created_until=st.none() | instants,
    always_load=st.none() | st.booleans(),
)
filters = st.dictionaries(st.sampled_from(DOMAINS), st.sampled_from(list(Label))).map(ReadFilter)
Fresh = Callable[[], AbstractContextManager[Index]]


@pytest.mark.requirement("index:property:as-the-obvious-one")
@settings(max_examples=60, deadline=None)
@given(
    history=st.lists(documents(), max_size=14),
    asked=st.lists(st.tuples(texts, filters, conditions, st.none() | instants, st.none() | instants), max_size=6),
)
def test_listings_and_searches_answer_as_the_obvious_index_does(
    fresh: Fresh,
    history: list[Document],
    asked: list[tuple[str, ReadFilter, Conditions, datetime | None, datetime | None]],
) -> None:
    obvious = open_index(uuid4().hex)
    with fresh() as index:
        for document in history:
            put(index, document)
            put(obvious, document)
        for text, readable, only, as_of, valid_at in asked:
            query = Query(text=text, readable=readable, conditions=only, limit=100, as_of=as_of, valid_at=valid_at)
            found = index.search(query)
            assert _plain(found) == _plain(obvious.search(query))
            assert all(readable.allows(hit.domain, hit.label) for hit in found)
            for order in ("newest", "oldest", "id"):
                listing = index.select(readable, only, order=order, as_of=as_of, valid_at=valid_at)
                assert listing == obvious.select(readable, only, order=order, as_of=as_of, valid_at=valid_at)
        for number in range(6):
            for moment in (None, *(as_of for *_, as_of, _ in asked if as_of is not None)):
                assert index.find(f"mem-n{number}", as_of=moment) == obvious.find(f"mem-n{number}", as_of=moment)


@pytest.mark.requirement("index:property:rebuild-as-writes")
@settings(max_examples=40, deadline=None)
@given(history=st.lists(documents(), max_size=14), asked=st.lists(st.tuples(texts, st.none() | instants), max_size=6))
def test_a_rebuild_from_what_is_kept_answers_as_the_writes_did(
    fresh: Fresh, history: list[Document], asked: list[tuple[str, datetime | None]]
) -> None:
    kept = {(document.entry.id, document.entry.version): document for document in history}
    readable = ReadFilter(dict.fromkeys(DOMAINS, Label.restricted))

    def answers(index: Index) -> list[list[Hit]]:
        return [index.search(Query(text=text, readable=readable, as_of=as_of)) for text, as_of in asked]

    with fresh() as index:
        for document in history:
            put(index, document)
        before = answers(index)
        for domain in DOMAINS:
            own = [kept[key] for key in sorted(kept) if kept[key].entry.domain == domain]
            assert index.rebuild(domain, own, through=1) == len(own)
        assert answers(index) == before


@pytest.mark.requirement("index:property:any-text")
@settings(max_examples=150, deadline=None)
@given(text=st.text(st.characters() | st.sampled_from('"*()^:{}+-\\\x00\ud800 用戶ก'), max_size=40))
def test_any_text_can_be_asked_and_kept(fresh: Fresh, text: str) -> None:
    with fresh() as index:
        put(index, doc("a", text, title=text, tags=(text,), source=(text,), aliases=(text,)), doc("b", "walrus"))
        readable = ReadFilter({"main": Label.restricted})
        found = index.search(Query(text=text, readable=readable))
        assert {hit.id for hit in found} <= {"mem-a", "mem-b"}
        assert [hit.id for hit in index.select(readable, Conditions(tags=(text,), source_prefix=text))] == ["mem-a"]
        for hit in index.select(readable, Conditions()):
            "".join((hit.title, hit.summary, *hit.tags, *hit.source)).encode()
        if any(character.isascii() and character.isalnum() for character in text):
            assert found[0].id == "mem-a"


def _plain(hits: list[Hit]) -> list[tuple[str, int, str, Label]]:
    """Return what two indexes that rank differently must agree on."""
    return sorted((hit.id, hit.version, hit.domain, hit.label) for hit in hits)
