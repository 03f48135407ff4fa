"""The bytes of events: canonical, chained, and refused when they are not what was written."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amem_core.domain.events import Event, NewEvent
from amem_core.errors import CorruptionError, InvalidError
from amem_core.format.events import GENESIS, chain, decode_event, encode_event, link

GOLDEN = Path(__file__).parent / "golden"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
new_events = st.builds(
    NewEvent,
    kind=text,
    subject=text,
    actor=text,
    time=st.datetimes(timezones=st.just(UTC)),
    data=st.dictionaries(text, json_values, max_size=4),
)


def an_event(**changes) -> NewEvent:
    fields = {"kind": "entry.written", "subject": "mem-1", "actor": "owner", "time": NOON, "data": {"version": 1}}
    return NewEvent(**{**fields, **changes})


def golden_events() -> list[Event]:
    first = link(
        GENESIS, domain="main", seq=1, event=an_event(data={"version": 1, "digest": "ab" * 32, "replaces": None})
    )
    moved = an_event(kind="task.claimed", subject="mem-2", actor="session:s1", time=NOON + timedelta(microseconds=5))
    second = link(first.chain, domain="main", seq=2, event=moved)
    odd = an_event(actor="tap:web", data={"é": ["\u2028", 0.5, {}], "fences": [1, 2], "done": True})
    return [first, second, link(second.chain, domain="main", seq=3, event=odd)]


def test_the_bytes_of_a_log_are_those_that_were_released():
    expected = (GOLDEN / "log-v1" / "main.jsonl").read_bytes()
    assert b"".join(encode_event(event) for event in golden_events()) == expected
    assert [decode_event(line, domain="main") for line in expected.splitlines(keepends=True)] == golden_events()


@given(new_events, st.integers(1, 2**63))
def test_what_is_encoded_decodes_to_the_same_event(event, seq):
    linked = link(GENESIS, domain="main", seq=seq, event=event)
    line = encode_event(linked)
    assert decode_event(line, domain="main") == linked
    assert encode_event(decode_event(line, domain="main")) == line


@given(new_events)
def test_a_line_is_ascii_ends_in_one_newline_and_holds_no_other(event):
    line = encode_event(link(GENESIS, domain="main", seq=1, event=event))
    assert line.isascii()
    assert line.index(b"\n") == len(line) - 1


@given(new_events, new_events)
def test_the_chain_depends_on_everything_and_on_nothing_else(one, other):
    chains = [chain(GENESIS, domain="main", seq=1, event=event) for event in (one, other)]
    lines = [encode_event(link(GENESIS, domain="main", seq=1, event=event)) for event in (one, other)]
    assert (chains[0] == chains[1]) == (lines[0] == lines[1])
    assert chains[0] != chain("1" * 64, domain="main", seq=1, event=one)
    assert chains[0] != chain(GENESIS, domain="other", seq=1, event=one)
    assert chains[0] != chain(GENESIS, domain="main", seq=2, event=one)


@pytest.mark.parametrize("field", ["kind", "subject", "actor", "time", "data", "seq"])
def test_a_changed_member_breaks_the_chain(field):
    event = golden_events()[0]
    members = json.loads(encode_event(event))
    members[field] = {"seq": 9, "time": "2026-01-01T12:00:00.000001Z", "data": {}}.get(field, "changed")
    changed = decode_event(json.dumps(members).encode(), domain="main")
    assert changed.chain != chain(GENESIS, domain="main", seq=changed.seq, event=changed)


def test_a_line_decodes_without_its_newline():
    event = golden_events()[0]
    assert decode_event(encode_event(event)[:-1], domain="main") == event


def test_every_torn_line_is_refused():
    line = encode_event(golden_events()[2])
    for length in range(len(line) - 1):
        with pytest.raises(CorruptionError):
            decode_event(line[:length], domain="main")


def replaced(**changes) -> bytes:
    members = json.loads(encode_event(golden_events()[0]))
    members.update(changes)
    return json.dumps({name: value for name, value in members.items() if value is not ...}).encode()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"\xff", "outside ASCII"),
        (b"[" * 100_000, "not JSON"),
        (replaced(kind=...), "missing members: ['kind']"),
        (replaced(more=1), "unknown members: ['more']"),
        (replaced(domain="other"), "belongs to the domain 'other'"),
        (replaced(seq=0), "seq"),
        (replaced(seq=True), "seq"),
        (replaced(seq=1.0), "seq"),
        (replaced(kind=None), "must be strings"),
        (replaced(data=[]), "data is not an object"),
        (replaced(data={"a": float("nan")}), "NaN is no JSON value"),
        (replaced(data={"a": float("inf")}), "Infinity is no JSON value"),
        (replaced(data=0).replace(b'"data": 0', b'"data": {"a": 1e999}'), "1e999 is out of range"),
        (replaced(chain="AB" * 32), "chain"),
        (replaced(time="2026-01-01T12:00:00Z"), "time"),
        (replaced(time="2026-01-01T12:00:00.000000+00:00"), "time"),
        (replaced(time="2026-02-30T12:00:00.000000Z"), "time does not exist"),
        (replaced(subject="\ud800"), "canonical"),
    ],
)
def test_a_line_that_is_no_event_is_refused_with_the_reason(line, reason):
    with pytest.raises(CorruptionError) as caught:
        decode_event(line, domain="main")
    assert reason in str(caught.value)
    assert reason in str(caught.value.context["reason"])


def test_a_time_in_another_zone_is_kept_as_its_instant():
    berlin = NOON.astimezone(timezone(timedelta(hours=1)))
    assert chain(GENESIS, domain="main", seq=1, event=an_event(time=berlin)) == chain(
        GENESIS, domain="main", seq=1, event=an_event()
    )


@pytest.mark.parametrize(
    "event",
    [
        an_event(time=datetime(2026, 1, 1, 12)),  # noqa: DTZ001  (naive is what is refused)
        an_event(time=datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))),
        an_event(data={"when": NOON}),
        an_event(data={"a": float("nan")}),
        an_event(data={1: "a", "b": 2}),
        an_event(data={"a": "\ud800"}),
        an_event(subject="\udfff"),
    ],
)
def test_an_event_that_is_no_canonical_json_is_refused(event):
    with pytest.raises(InvalidError):
        link(GENESIS, domain="main", seq=1, event=event)


def test_read_only_data_is_encoded():
    data = MappingProxyType({"b": 1, "a": 2})
    assert b'"data":{"a":2,"b":1}' in encode_event(link(GENESIS, domain="main", seq=1, event=an_event(data=data)))
