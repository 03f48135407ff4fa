"""A bundle's marks: one spelling for each, read line by line, and refused when they are anything else."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from amem_core.errors import FormatError, InvalidError
from amem_core.format.bundle import KINDS
from amem_core.format.bundle_marks import MAX_MARK, read_marks, render_heading, render_mark

GOLDEN = Path(__file__).parent / "golden" / "bundle-0"
WHEN = "2026-01-01T12:00:00.000000Z"
LIFTED = {"when": WHEN, "by": "owner", "reason": "it holds: after all"}
RECEIPT = {
    "id": "mem-01a",
    "label": "internal",
    "reason": "requested",
    "by": "owner",
    "time": WHEN,
    "versions": [{"version": 1, "digest": "0" * 64}, {"version": 2, "digest": "ab" * 32}],
    "values": ["1" * 64, "cd" * 32],
    "lifted": None,
}
TOMBSTONE = {
    "value": "1" * 64,
    "id": "mem-01a",
    "label": "public",
    "cause": "rejected",
    "reason": "the old # box: 用户\u00a0\u202e",
    "by": "session:one",
    "when": WHEN,
    "lifted": LIFTED,
}
PROMOTION = {
    "id": "mem-01a",
    "label": "restricted",
    "records": [
        {
            "domain": "notes",
            "version": 3,
            "digest": "ab" * 32,
            "tier": "verified",
            "verified": [{"when": WHEN, "by": "Ada", "oracle": "ci", "evidence": "run 12", "count": 2, "odd": [None]}],
        },
        {"domain": "main", "version": 4, "digest": "0" * 64, "tier": "curated", "verified": []},
    ],
}
MARKS = {"receipts": [RECEIPT], "tombstones": [TOMBSTONE, {**TOMBSTONE, "id": "mem-01b"}], "promotions": [PROMOTION]}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def data_of(kind, marks):
    return render_heading(kind) + b"".join(render_mark(kind, mark) for mark in marks)


def read(data, kind):
    return list(read_marks(io.BytesIO(data), kind, path=f"{kind}.yaml"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_of_marks_are_those_that_were_released(kind):
    data = (GOLDEN / f"{kind}.yaml").read_bytes()
    assert data_of(kind, MARKS[kind]) == data
    assert read(data, kind) == MARKS[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_marks_are_the_same_to_a_reader_of_yaml(kind):
    fields = yaml.load(data_of(kind, MARKS[kind]), Loader=yaml.CSafeLoader)
    assert fields == {"format": "durable-memory/marks/0", "kind": kind, "items": MARKS[kind]}


@given(st.lists(st.dictionaries(st.text(max_size=5), values, max_size=3), max_size=3))
def test_whatever_was_verified_comes_back_or_is_refused(verified):
    mark = {**PROMOTION, "records": [{**PROMOTION["records"][0], "verified": verified}]}
    try:
        data = data_of("promotions", [mark])
    except InvalidError:
        assert "\\u0000" in json.dumps(verified) or "\\ud" in json.dumps(verified)
        return
    assert read(data, "promotions") == [mark]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("receipts", {"id": "MEM-01A"}),
        ("receipts", {"id": "x"}),
        ("receipts", {"label": None}),
        ("receipts", {"reason": "two words"}),
        ("receipts", {"reason": ["requested"]}),
        ("receipts", {"by": "a\nb"}),
        ("receipts", {"by": "x" * 5000}),
        ("receipts", {"time": "yesterday"}),
        ("receipts", {"versions": {}}),
        ("receipts", {"versions": [{"version": True, "digest": "0" * 64}]}),
        ("receipts", {"versions": [{"version": 1, "digest": "0" * 63}]}),
        ("receipts", {"versions": [{"version": 1, "digest": "0" * 64, "text": "x"}]}),
        ("receipts", {"values": ["x"]}),
        ("receipts", {"values": "1" * 64}),
        ("receipts", {"lifted": {"when": WHEN}}),
        ("receipts", {"lifted": True}),
        ("receipts", {"title": "what it was"}),
        ("tombstones", {"value": "1" * 63}),
        ("tombstones", {"value": None}),
        ("tombstones", {"cause": "erase"}),
        ("tombstones", {"cause": ["erased"]}),
        ("tombstones", {"reason": None}),
        ("tombstones", {"reason": "\ud800"}),
        ("promotions", {"records": []}),
        ("promotions", {"records": [{}]}),
        ("promotions", {"records": [{**PROMOTION["records"][0], "verified": ["x"]}]}),
        ("promotions", {"records": [{**PROMOTION["records"][0], "verified": [{"x": float("nan")}]}]}),
        ("promotions", {"records": [{**PROMOTION["records"][0], "verified": [{"x": "x" * MAX_MARK}]}]}),
        ("promotions", {"records": [{**PROMOTION["records"][0], "tier": "sure"}]}),
        ("promotions", {"records": [{**PROMOTION["records"][0], "domain": "con"}]}),
    ],
)
def test_a_mark_that_breaks_a_rule_is_never_written_and_never_read(kind, change):
    mark = {**MARKS[kind][0], **change}
    if set(mark) == set(MARKS[kind][0]):
        with pytest.raises(InvalidError):
            render_mark(kind, mark)
    line = b"  - " + json.dumps(mark).encode() + b"\n"
    with pytest.raises(FormatError) as caught:
        read(render_heading(kind) + line, kind)
    assert caught.value.context["line"] == 4


def nested(depth):
    inner: object = "x"
    for _ in range(depth):
        inner = [inner]
    return inner


def test_what_nests_too_deep_is_refused_by_writer_and_reader():
    for depth in (41, 50_000):
        mark = {**PROMOTION, "records": [{**PROMOTION["records"][0], "verified": [{"x": nested(depth)}]}]}
        with pytest.raises(InvalidError):
            render_mark("promotions", mark)
    line = render_mark("promotions", PROMOTION).replace(b"[null]", b"[" * 50_000 + b"]" * 50_000)
    with pytest.raises(FormatError):
        read(render_heading("promotions") + line, "promotions")


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[: len(render_heading("tombstones"))],
        lambda data: data[:-1],
        lambda data: data + b"\n",
        lambda data: data + b"# more\n",
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b'", "', b'","', 1),
        lambda data: data.replace(b'"id": "mem-01a", "label": "public"', b'"label": "public", "id": "mem-01a"'),
        lambda data: data.replace(b'"cause"', b'"cause": "erased", "cause"', 1),
        lambda data: data.replace(b"public", b"p\\u0075blic", 1),
        lambda data: data + data.splitlines(keepends=True)[-1],
        lambda data: b"".join([*data.splitlines(keepends=True)[:3], *data.splitlines(keepends=True)[:2:-1]]),
    ],
)
def test_a_file_of_marks_has_one_spelling_and_one_order(change):
    data = data_of("tombstones", MARKS["tombstones"])
    assert change(data) != data
    with pytest.raises(FormatError):
        read(change(data), "tombstones")
