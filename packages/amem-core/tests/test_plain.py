"""Domain values as JSON, and times as people write them."""

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amem_core.domain.entries import Entry
from amem_core.domain.labels import Label, Status, Tier
from amem_core.domain.plain import parse_day, parse_moment, parse_time, plain
from amem_core.domain.results import Check, Reading
from amem_core.errors import InvalidError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def entry(**fields):
    base = {
        "id": "mem-1",
        "version": 1,
        "type": "fact",
        "domain": "d",
        "title": "t",
        "summary": "s",
        "body": "b",
        "author": "owner",
        "created": NOON,
        "updated": NOON,
        "classification": Label.internal,
    }
    return Entry(**{**base, **fields})


def test_a_result_becomes_an_object_with_words_for_scales_and_z_for_utc():
    found = plain(Reading(entry=entry(tags=("a", "b")), digest="x", current_version=1, fenced="f"))
    assert found["entry"]["classification"] == "internal"
    assert found["entry"]["trust_tier"] == str(Tier.raw)
    assert found["entry"]["status"] == str(Status.active)
    assert found["entry"]["created"] == "2026-01-01T12:00:00Z"
    assert found["entry"]["tags"] == ["a", "b"]
    assert found["entry"]["valid_from"] is None
    assert list(found) == ["entry", "digest", "current_version", "fenced", "head", "masks", "notices"]


def test_dates_and_given_offsets_are_kept():
    berlin = datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=1)))
    found = plain(entry(valid_from=date(2026, 1, 1), valid_until=berlin))
    assert found["valid_from"] == "2026-01-01"
    assert found["valid_until"] == "2026-03-29T02:30:00+01:00"


def test_fields_that_the_format_does_not_know_become_json_whatever_yaml_made_of_them():
    extra = MappingProxyType(
        {"n": math.inf, "none": math.nan, "deep": {1: [True, None, 0.5], None: -math.inf, False: 10**30}}
    )
    found = json.loads(json.dumps(plain(entry(extra=extra)), allow_nan=False))
    assert found["extra"] == {
        "n": ".inf",
        "none": ".nan",
        "deep": {"1": [True, None, 0.5], "null": "-.inf", "false": 10**30},
    }


def test_sets_are_sorted():
    assert plain({"b", "a"}) == ["a", "b"]


def test_what_has_no_form_in_json_is_refused():
    with pytest.raises(TypeError, match="bytes has no form"):
        plain(Check(name="n", state="ok", detail=b""))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.datetimes(timezones=st.just(UTC))
    | st.dates(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
)


@given(VALUES)
def test_whatever_goes_in_json_can_be_written_and_is_plain_already(value):
    found = plain(value)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert plain(found) == found


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-01-01T12:00:00Z", NOON),
        ("2026-01-01 13:00+01:00", NOON),
        ("2026-01-01t12:00:00.000z", NOON),
        ("2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_with_its_offset_and_a_date_as_its_first_moment(text, instant):
    assert parse_time(text) == instant
    assert parse_time(text).tzinfo is UTC


def test_a_moment_keeps_what_was_given():
    assert parse_moment("2026-01-01") == date(2026, 1, 1)
    assert parse_moment("2026-03-29T02:30:00+01:00").isoformat() == "2026-03-29T02:30:00+01:00"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2026-01-01T12:00:00", "offset from UTC"),
        ("2026-02-30", "no date"),
        ("2026-01-01T25:00:00Z", "no time"),
        ("20260101", "neither a date nor a time"),
        ("yesterday", "neither a date nor a time"),
        ("", "neither a date nor a time"),
        ("2026-01-01T12:00:00Z ", "neither a date nor a time"),
        ("0001-01-01T00:00:00+23:59", "leaves the calendar"),
    ],
)
def test_what_is_no_time_is_refused_with_what_to_write(text, says):
    with pytest.raises(InvalidError, match=says) as caught:
        parse_time(text)
    assert caught.value.hint


def test_a_time_is_no_day():
    with pytest.raises(InvalidError, match="not a date"):
        parse_day("2026-01-01T12:00:00Z")


def instant_or_remedy(text):
    try:
        return parse_time(text)
    except InvalidError as error:
        return error.hint


@given(st.text() | st.datetimes(timezones=st.timezones()).map(str))
def test_any_text_is_a_time_or_refused_with_a_remedy(text):
    assert instant_or_remedy(text)
