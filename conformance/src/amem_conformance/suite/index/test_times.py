"""What was known then and what was true then are filters like any other."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from amem_conformance.suite.index._making import EVERYTHING, ask, day, doc, listed, put
from amem_core.domain.labels import Label, Status
from amem_core.domain.queries import Conditions, ReadFilter
from amem_core.ports.index import Index

OPEN = ReadFilter({"main": Label.internal})


@pytest.mark.requirement("index:as-of:newest-only")
def test_without_an_instant_only_the_newest_version_answers(backend: Index) -> None:
    put(backend, doc("a", "walrus"), doc("a", "carpenter", version=2))
    assert ask(backend, "walrus") == []
    assert ask(backend, "carpenter") == ["a"]
    assert [hit.version for hit in backend.select(EVERYTHING, Conditions())] == [2]


@pytest.mark.requirement("index:as-of:version-of-then")
def test_as_of_an_instant_the_version_known_then_answers(backend: Index) -> None:
    put(backend, doc("a", "walrus"), doc("a", "carpenter", version=2), doc("a", "oyster", version=3))
    for instant, word in ((1, "walrus"), (1.5, "walrus"), (2, "carpenter"), (3, "oyster"), (400, "oyster")):
        found = [name for name in ("walrus", "carpenter", "oyster") if ask(backend, name, as_of=day(instant))]
        assert found == [word]
    assert ask(backend, "walrus", as_of=day(0.999)) == []
    assert listed(backend, as_of=day(0.999)) == []


@pytest.mark.requirement("index:as-of:version-of-then")
def test_the_version_of_then_is_judged_by_its_own_status(backend: Index) -> None:
    put(backend, doc("a", "walrus"), doc("a", "walrus", version=2, status=Status.superseded))
    assert ask(backend, "walrus") == []
    assert ask(backend, "walrus", as_of=day(1)) == ["a"]
    assert ask(backend, "walrus", as_of=day(2)) == []
    assert ask(backend, "walrus", only={"statuses": (Status.superseded,)}) == ["a"]


@pytest.mark.requirement("index:as-of:any-order")
def test_versions_may_come_in_any_order(backend: Index) -> None:
    put(backend, doc("a", "oyster", version=3))
    put(backend, doc("a", "walrus"))
    put(backend, doc("a", "carpenter", version=2))
    assert ask(backend, "oyster") == ["a"]
    assert ask(backend, "walrus carpenter") == []
    assert ask(backend, "carpenter", as_of=day(2)) == ["a"]
    assert ask(backend, "walrus", as_of=day(1)) == ["a"]


@pytest.mark.requirement("index:as-of:clock-back")
def test_of_what_was_known_the_highest_version_answers_when_the_clock_went_back(backend: Index) -> None:
    put(backend, doc("a", "walrus", known=5), doc("a", "carpenter", version=2, known=3))
    assert ask(backend, "carpenter", as_of=day(3)) == ["a"]
    assert ask(backend, "carpenter", as_of=day(6)) == ["a"]
    assert ask(backend, "walrus", as_of=day(6)) == []


@pytest.mark.requirement("index:as-of:higher-label")
def test_an_earlier_version_carries_the_label_that_the_newest_was_raised_to(backend: Index) -> None:
    put(backend, doc("a", "walrus"), doc("a", "walrus", version=2, classification=Label.restricted))
    assert ask(backend, "walrus", OPEN, as_of=day(1)) == []
    assert listed(backend, OPEN, as_of=day(1)) == []
    hit = backend.select(EVERYTHING, Conditions(), as_of=day(1))[0]
    assert (hit.version, hit.label) == (1, Label.restricted)


@pytest.mark.requirement("index:as-of:higher-label")
def test_an_earlier_version_keeps_its_own_label_when_the_newest_was_lowered(backend: Index) -> None:
    put(backend, doc("a", "walrus", classification=Label.restricted), doc("a", "walrus", version=2))
    assert ask(backend, "walrus", OPEN) == ["a"]
    assert ask(backend, "walrus", OPEN, as_of=day(1)) == []


@pytest.mark.requirement("index:valid-at:ended")
def test_what_was_superseded_answers_for_the_time_when_it_held_if_it_says_when_it_ended(backend: Index) -> None:
    ended = doc("a", "walrus", valid_from=day(1), valid_until=day(5), status=Status.superseded)
    wrong = doc("b", "walrus", valid_from=day(1), status=Status.superseded)
    away = doc("c", "walrus", valid_from=day(1), valid_until=day(5), status=Status.demoted)
    put(backend, ended, wrong, away, doc("d", "walrus", valid_from=day(5)))
    assert ask(backend, "walrus", valid_at=day(3)) == ["a"]
    assert listed(backend, valid_at=day(3)) == ["a"]
    assert ask(backend, "walrus", valid_at=day(6)) == ["d"]
    assert ask(backend, "walrus") == ["d"]
    assert ask(backend, "walrus", valid_at=day(3), only={"statuses": (Status.demoted,)}) == ["c"]


@pytest.mark.requirement("index:find:as-of")
def test_find_gives_the_version_that_was_known_then_under_the_higher_label(backend: Index) -> None:
    put(backend, doc("a", "walrus"), doc("a", "oyster", version=3, known=4, classification=Label.restricted))
    for instant, version in ((1, 1), (3.9, 1), (4, 3)):
        hit = backend.find("mem-a", as_of=day(instant))
        assert hit is not None
        assert (hit.version, hit.label) == (version, Label.restricted)
    assert backend.find("mem-a", as_of=day(0.5)) is None


VALID: list[tuple[date | datetime | None, date | datetime | None, datetime, bool]] = [
    (None, None, day(0), True),
    (day(1), None, day(1), True),
    (day(1), None, day(1) - timedelta(microseconds=1), False),
    (None, day(2), day(2), False),
    (None, day(2), day(2) - timedelta(microseconds=1), True),
    (date(2026, 3, 1), None, datetime(2026, 3, 1, tzinfo=UTC), True),
    (date(2026, 3, 1), None, datetime(2026, 2, 28, 23, 59, tzinfo=UTC), False),
    (None, date(2026, 3, 1), datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC), True),
    (None, date(2026, 3, 1), datetime(2026, 3, 2, tzinfo=UTC), False),
    (date(2026, 3, 1), date(2026, 3, 1), datetime(2026, 3, 1, 12, tzinfo=UTC), True),
    (date.min, date.max, day(0), True),
    (
        datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=1))),
        None,
        datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
        True,
    ),
    (
        datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=1))),
        None,
        datetime(2026, 3, 29, 1, 29, tzinfo=UTC),
        False,
    ),
    (date(2026, 3, 1), None, datetime(2026, 3, 1, 1, tzinfo=timezone(timedelta(hours=2))), False),
]


@pytest.mark.requirement("index:valid-at:span")
@pytest.mark.parametrize(("begins", "ends", "at", "holds"), VALID)
def test_an_entry_is_true_from_its_beginning_up_to_its_end(
    backend: Index, begins: date | datetime | None, ends: date | datetime | None, at: datetime, *, holds: bool
) -> None:
    put(backend, doc("a", "walrus", valid_from=begins, valid_until=ends))
    expected = ["a"] if holds else []
    assert ask(backend, "walrus", valid_at=at) == expected
    assert listed(backend, valid_at=at) == expected
    assert ask(backend, "walrus") == ["a"]


@pytest.mark.requirement("index:valid-at:with-as-of")
def test_what_was_known_then_and_what_was_true_then_combine(backend: Index) -> None:
    put(
        backend,
        doc("a", "walrus", valid_until=day(10)),
        doc("a", "walrus", version=2, valid_until=day(20)),
    )
    assert ask(backend, "walrus", as_of=day(1), valid_at=day(15)) == []
    assert ask(backend, "walrus", as_of=day(2), valid_at=day(15)) == ["a"]


@pytest.mark.requirement("index:times:by-instant")
def test_order_is_by_instant_whatever_the_offset(backend: Index) -> None:
    put(
        backend,
        doc("b", created=datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=1)))),
        doc("a", created=datetime(2026, 3, 29, 2, 0, tzinfo=UTC)),
        doc("c", created=datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        doc("d", created=datetime(2026, 3, 29, 1, 30, 0, 1, tzinfo=UTC)),
    )
    assert listed(backend, order="oldest") == ["b", "c", "d", "a"]
    assert {hit.created.utcoffset() for hit in backend.select(EVERYTHING, Conditions())} == {timedelta(0)}


@pytest.mark.requirement("index:times:kept")
def test_the_span_is_answered_as_it_was_given(backend: Index) -> None:
    begins = datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=1)))
    put(backend, doc("a", valid_from=begins, valid_until=date(2026, 4, 1), review_by=date(2026, 5, 1)))
    hit = backend.select(EVERYTHING, Conditions())[0]
    assert hit.valid_from == begins
    assert isinstance(hit.valid_from, datetime)
    assert hit.valid_from.utcoffset() == timedelta(hours=1)
    assert hit.valid_until == date(2026, 4, 1)
    assert not isinstance(hit.valid_until, datetime)
    assert hit.review_by == date(2026, 5, 1)
