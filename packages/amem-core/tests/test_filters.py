"""What a filter expression means, and what becomes of one that means nothing."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amem_core.domain.labels import Label, Status, Tier
from amem_core.domain.queries import Conditions
from amem_core.errors import InvalidError
from amem_core.services.filters import OPERATORS, parse_filter

DAY = datetime(2026, 1, 1, tzinfo=UTC)
NEXT = datetime(2026, 1, 2, tzinfo=UTC)
MOMENT = datetime(2026, 1, 1, 9, 30, tzinfo=UTC)
AFTER = datetime(2026, 1, 1, 9, 30, 0, 1, tzinfo=UTC)


def refusal(text: str) -> InvalidError:
    with pytest.raises(InvalidError) as caught:
        parse_filter(text)
    return caught.value


def test_every_condition_of_a_long_expression_is_taken():
    found = parse_filter(
        "type = decision and tag in (a, b) and created >= 2026-01-01 and label <= internal"
        " and tier >= curated and author = owner and status in (active, archived)"
        " and source = file:docs/ and always_load = true"
    )
    assert found == Conditions(
        types=("decision",),
        any_tags=("a", "b"),
        created_from=DAY,
        highest_label=Label.internal,
        tiers=(Tier.curated, Tier.verified),
        authors=("owner",),
        statuses=(Status.active, Status.archived),
        source_prefix="file:docs/",
        always_load=True,
    )


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_an_empty_expression_asks_for_what_is_active(text):
    assert parse_filter(text) == Conditions()


def test_several_tags_joined_by_and_must_all_be_there():
    assert parse_filter("tag = a and tag = b and tag in (c, d)") == Conditions(tags=("a", "b"), any_tags=("c", "d"))


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("created = 2026-01-01", DAY, NEXT),
        ("created >= 2026-01-01", DAY, None),
        ("created > 2026-01-01", NEXT, None),
        ("created <= 2026-01-01", None, NEXT),
        ("created < 2026-01-01", None, DAY),
        ("created >= 2026-01-01T10:30:00+01:00", MOMENT, None),
        ("created > 2026-01-01T09:30:00Z", AFTER, None),
        ("created <= 2026-01-01t09:30z", None, AFTER),
        ("created > 2026-01-01T09:30:00Z and created < 2026-01-02", AFTER, NEXT),
    ],
)
def test_a_date_is_a_whole_day_and_a_time_an_instant(text, start, end):
    assert parse_filter(text) == Conditions(created_from=start, created_until=end)


@pytest.mark.parametrize(
    ("text", "tiers"),
    [
        ("tier = raw", {Tier.raw}),
        ("tier > raw", {Tier.curated, Tier.verified}),
        ("tier <= curated", {Tier.raw, Tier.curated}),
        ("tier < curated", {Tier.raw}),
        ("tier in (raw, verified)", {Tier.raw, Tier.verified}),
    ],
)
def test_tiers_are_ordered(text, tiers):
    assert set(parse_filter(text).tiers) == tiers


def test_labels_are_bounded_from_above():
    assert parse_filter("label < confidential").highest_label is Label.internal
    assert parse_filter("label = public").highest_label is Label.public
    assert "label <= internal" in refusal("label = internal").hint


def test_words_are_read_in_any_case_and_with_or_without_spaces():
    assert parse_filter("TYPE=fact AND Tag IN(a,b) AND label<=Internal") == Conditions(
        types=("fact",), any_tags=("a", "b"), highest_label=Label.internal
    )


def test_quoted_text_may_hold_anything():
    expected = Conditions(tags=('say "and", (or)',), source_prefix="https://example.org/a=b")
    assert parse_filter(r"""tag = "say \"and\", (or)" and source = 'https://example.org/a=b' """) == expected


@pytest.mark.parametrize(
    ("text", "column", "says", "hint"),
    [
        ("colour = red", 1, "no field 'colour'", "fields: type, tag"),
        ("type >= fact", 6, "'>=' cannot follow 'type'", "type takes: = in"),
        ("type = fact or tag = a", 13, "'or' is not supported", "type in (a, b)"),
        ("not type = fact", 1, "'not' is not supported", "exclusion"),
        ("type not in (a)", 6, "'not' is not supported", "type takes"),
        ("type != fact", 6, "'!=' is not supported", "type takes"),
        ("type = fact and", 16, "a condition is missing", "such as"),
        ("type =", 7, "a value is missing", "such as"),
        ("type", 5, "compared with nothing", "type takes"),
        ("type in fact", 9, "needs a list", "tag in (a, b)"),
        ("type in (a", 11, "found the end", "tag in (a, b)"),
        ("type in ()", 10, "expected a value", "such as"),
        ("type = (a, b)", 8, "follows 'in'", "tag in (a, b)"),
        ("(type = fact)", 1, "grouping", "one after the other"),
        ('tag = "open', 7, "never closed", "close it"),
        ("created >= yesterday", 12, "neither a date nor a time", "2026-01-31"),
        ("created >= 2026-01-01T10:00:00", 12, "offset from UTC", "Z for UTC"),
        ("created >= 2026-02-30", 12, "no date", "calendar"),
        ("created <= 9999-12-31", 12, "end of the calendar", "9998"),
        ("status = deleted", 10, "not a status", "active, superseded"),
        ("tier = gold", 8, "not a tier", "raw, curated, verified"),
        ("tier > verified", 1, "no tier is > verified", "raw, curated"),
        ("author = me", 10, "cannot be an author", "session:<id>"),
        ("always_load = maybe", 15, "neither true nor false", "always_load = true"),
        ("type = fact and type = idea", 17, "restricted twice", "type in (a, b)"),
        ("created > 2026-01-01 and created = 2026-01-02", 26, "restricted twice", "leave one out"),
        ("type = fact;", 8, "cannot be an entry's type", "short lower-case word"),
    ],
)
def test_a_wrong_expression_is_refused_with_its_column_and_a_remedy(text, column, says, hint):
    error = refusal(text)
    assert str(error).startswith(f"filter, column {column}: ")
    assert says in str(error)
    assert hint in error.hint


def test_an_endless_expression_is_refused():
    assert "at most 4000" in str(refusal("type = a and " * 1000))


WORDS = ["and", "or", "not", "(", ")", ",", '"', "'", "\\", "\x00", "owner", "raw", "public", "active", "true"]
TIMES = ["2026-01-01", "0000-00-00", "9999-12-31", "0001-01-01T00:00+23:59"]
PIECES = st.sampled_from([*OPERATORS, *{o for many in OPERATORS.values() for o in many}, *WORDS, *TIMES])


def conditions_or_remedy(text):
    try:
        return parse_filter(text)
    except InvalidError as error:
        return error.hint


@given(st.text() | st.lists(PIECES | st.text(max_size=5), max_size=30).map(" ".join))
def test_any_text_becomes_conditions_or_a_refusal_with_a_remedy(text):
    assert conditions_or_remedy(text)
