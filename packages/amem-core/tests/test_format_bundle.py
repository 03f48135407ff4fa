"""A bundle's manifest: what is rendered comes back, what contradicts itself is refused with its line."""

from __future__ import annotations

import hashlib
import io
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from amem_core.domain.labels import Label
from amem_core.errors import FormatError, InvalidError, UnknownFormatError
from amem_core.format.bundle import Manifest, ManifestEntry, ManifestReader, MarksFile, parse_manifest, render_manifest

GOLDEN = Path(__file__).parent / "golden" / "bundle-0"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ONE = ManifestEntry("mem-01a", 1, "0" * 64, Label.public)
TWO = ManifestEntry("mem-01b", 3, "ab" * 32, Label.internal)
MANIFEST = Manifest("main", NOON, "owner", Label.internal, Label.confidential, (ONE, TWO))
MARKS = (
    MarksFile("receipts", 2, "1" * 64, Label.public),
    MarksFile("promotions", 1, "cd" * 32, Label.confidential),
)
MARKED = replace(MANIFEST, highest_label=Label.confidential, marks=MARKS)
EMPTY = Manifest("main", NOON, "session:s-1", Label.public, Label.public, ())

lines = st.builds(
    ManifestEntry,
    id=st.from_regex(r"mem-[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True),
    version=st.integers(1, 999_999_999),
    digest=st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
    classification=st.sampled_from(Label),
)


def text_of(manifest: Manifest = MANIFEST) -> str:
    return render_manifest(manifest).decode()


@pytest.mark.parametrize(("name", "manifest"), [("manifest", MANIFEST), ("empty", EMPTY), ("marked", MARKED)])
def test_the_bytes_of_a_manifest_are_those_that_were_released(name, manifest):
    data = (GOLDEN / f"{name}.yaml").read_bytes()
    assert render_manifest(manifest) == data
    assert parse_manifest(data) == manifest


@given(
    st.lists(lines, max_size=5, unique_by=lambda entry: entry.id),
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(["owner", "a: b", "yes", "2026", "用户"]),
)
def test_every_manifest_comes_back_equal_by_either_reader(entries, created, by):
    highest = max((entry.classification for entry in entries), default=Label.public)
    manifest = Manifest("main", created, by, highest, Label.restricted, tuple(entries))
    data = render_manifest(manifest)
    assert parse_manifest(data) == manifest
    assert parse_manifest(data + b"# read by the YAML library\n") == manifest


def test_a_manifest_is_the_same_to_a_reader_of_yaml_1_1():
    fields = yaml.load(text_of(), Loader=yaml.CSafeLoader)
    assert fields["format"] == "durable-memory/bundle/0"
    assert fields["entries"][0] == {
        "id": "mem-01a",
        "version": 1,
        "path": "entries/mem-01a.md",
        "digest": "0" * 64,
        "classification": "public",
    }


def test_a_manifest_that_was_written_elsewhere_is_read():
    elsewhere = (
        "# by another program\r\nmax_label: confidential\r\nhighest_label: internal\r\nby: 'owner'\r\n"
        'created: "2026-01-01T13:00:00+01:00"\r\ndomain: main\r\nformat: durable-memory/bundle/0\r\nentries:\r\n'
        + "".join(
            f"- id: {entry.id.upper()}\r\n  classification: {entry.classification}\r\n  digest: '{entry.digest}'\r\n"
            f"  path: {entry.path}\r\n  version: {entry.version}\r\n"
            for entry in (ONE, TWO)
        )
    )
    assert parse_manifest(b"\xef\xbb\xbf" + elsewhere.encode()) == MANIFEST


@pytest.mark.parametrize("reader", ["", "# c\n"], ids=["as written", "by the library"])
@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("format: durable-memory/bundle/0\n", "", 1, "not the manifest"),
        ("durable-memory/bundle/0", "something/0", 1, "not the manifest"),
        ("domain: main\n", "", 1, "no domain"),
        ("domain: main\n", "domain: main\ncolour: red\n", 3, "'colour' is no field"),
        ("domain: main\n", "domain: main\ndomain: main\n", 3, "stands twice"),
        ("domain: main", "domain: ../x", 2, "domain"),
        ("created: 2026-01-01T12:00:00Z", "created: 2026-01-01T12:00:00", 3, "no offset"),
        ("by: owner", "by: [owner]", 4, "not one word"),
        ("highest_label: internal", "highest_label: public", 5, "the highest of what it holds is internal"),
        ("highest_label: internal", "highest_label: confidential", 5, "the highest of what it holds is internal"),
        ("max_label: confidential", "max_label: public", 9, "above max_label"),
        ("max_label: confidential", "max_label: secret", 6, "max_label"),
        ("mem-01b", "mem-01a", 9, "stands twice"),
        (
            "id: mem-01b, version: 3, path: entries/mem-01b",
            "id: MEM-01A, version: 3, path: entries/mem-01a",
            9,
            "twice",
        ),
        ("id: mem-01b", "id: x", 9, "not the id"),
        ("entries/mem-01b.md", "entries/mem-01a.md", 9, "path"),
        ("entries/mem-01b.md", "entries/../mem-01b.md", 9, "path"),
        ("entries/mem-01b.md", "/etc/passwd", 9, "path"),
        ("entries/mem-01b.md", "entries/mem-01B.md", 9, "path"),
        ("entries/mem-01b.md", "entries\\\\mem-01b.md", 9, "path"),
        ("version: 3", "version: 0", 9, "version"),
        ("version: 3", "version: three", 9, "version"),
        ("ab" * 32, "AB" * 32, 9, "digest"),
        ("ab" * 32, "ab" * 31, 9, "digest"),
        ("classification: internal", "classification: Internal", 9, "classification"),
        (", classification: internal", "", 9, "no classification"),
        (", classification: internal", ", classification: internal, size: 4", 9, "'size' is no field"),
        ("  - {id: mem-01b", "  - x\n  - {id: mem-01b", 9, "not a mapping"),
    ],
)
def test_a_manifest_that_breaks_a_rule_is_refused_with_its_line(old, new, line, reason, reader):
    broken = text_of().replace(old, new)
    assert broken != text_of()
    with pytest.raises(FormatError) as caught:
        parse_manifest((broken + reader).encode())
    assert reason in str(caught.value)
    assert caught.value.context["line"] == line
    assert caught.value.context["path"] == "manifest.yaml"


@pytest.mark.parametrize("reader", ["", "# c\n"], ids=["as written", "by the library"])
@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("kind: promotions", "kind: receipts", 9, "path"),
        ("kind: promotions, count: 1, path: promotions", "kind: receipts, count: 1, path: receipts", 9, "twice"),
        ("kind: promotions, count: 1, path: promotions", "kind: secrets, count: 1, path: secrets", 9, "no kind"),
        ("count: 1,", "count: 0,", 9, "count"),
        ("path: promotions.yaml", "path: ../promotions.yaml", 9, "path"),
        ("path: promotions.yaml", "path: entries/promotions.yaml", 9, "path"),
        ("cd" * 32, "cd" * 31, 9, "digest"),
        ("classification: confidential", "classification: restricted", 9, "above max_label"),
        ("classification: confidential", "classification: secret", 9, "classification"),
        ("highest_label: confidential", "highest_label: internal", 5, "what it holds is confidential"),
        (", count: 2", "", 8, "no count"),
        ("marks:\n", "marks: none\nsince:\n", 9, "'since' is no field"),
    ],
)
def test_a_manifest_whose_marks_break_a_rule_is_refused_with_its_line(old, new, line, reason, reader):
    broken = text_of(MARKED).replace(old, new)
    assert broken != text_of(MARKED)
    with pytest.raises(FormatError) as caught:
        parse_manifest((broken + reader).encode())
    assert reason in str(caught.value)
    assert caught.value.context["line"] == line


def test_a_manifest_is_the_same_by_either_reader_with_marks_and_without_entries():
    for manifest in (MARKED, replace(MARKED, entries=()), EMPTY):
        data = render_manifest(manifest)
        assert parse_manifest(data) == parse_manifest(data + b"# read by the YAML library\n") == manifest


def test_a_reader_yields_the_same_entries_each_time_and_knows_where_it_is():
    reader = ManifestReader(io.BytesIO(render_manifest(MARKED)))
    seen = [[(entry, reader.so_far) for entry in reader.entries()] for _ in range(2)]
    assert seen[0] == seen[1]
    assert [entry for entry, _ in seen[0]] == [ONE, TWO]
    assert seen[0][-1][1] == reader.digest == hashlib.sha256(render_manifest(MARKED)).hexdigest()
    assert reader.labels == {ONE.id: Label.public, TWO.id: Label.internal}


@pytest.mark.parametrize("form", ["durable-memory/bundle/1", "durable-memory/bundle/next"])
def test_a_newer_form_is_told_apart_from_a_broken_one(form):
    newer = text_of().replace("durable-memory/bundle/0", form).replace("domain: main\n", "")
    with pytest.raises(UnknownFormatError) as caught:
        parse_manifest(newer.encode())
    assert "newer" in caught.value.hint


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"- a\n", b"entries:\n", b"\nentries:\n\n", b"format: [a\n", b"a: \0\n"]
)
def test_what_is_no_manifest_is_refused(data):
    with pytest.raises(FormatError):
        parse_manifest(data)


@pytest.mark.parametrize(
    "changes",
    [
        {"domain": "../x"},
        {"created": NOON.replace(tzinfo=None)},
        {"by": "a\nb"},
        {"by": "\ud800"},
        {"highest_label": Label.public},
        {"max_label": Label.public},
        {"entries": (ONE, ONE)},
        {"entries": (replace(ONE, id="MEM-1"), TWO)},
        {"entries": (replace(ONE, id="mem-1, x: y"), TWO)},
        {"entries": (replace(ONE, digest='"'), TWO)},
        {"entries": (replace(ONE, version=0), TWO)},
    ],
)
def test_a_manifest_that_could_not_be_read_back_is_never_rendered(changes):
    with pytest.raises(InvalidError):
        render_manifest(replace(MANIFEST, **changes))
