"""An entry's bytes: what is written comes back, and what a person wrote is taken as meant or refused with its line."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from amem_core.domain.entries import Entry
from amem_core.domain.labels import Label, Status, Tier
from amem_core.errors import FormatError, InvalidError
from amem_core.format.entry import MAX_BODY, check_entry, clean_text, digest, parse, render
from amem_core.format.frontmatter import Verbatim

GOLDEN = Path(__file__).parent / "golden" / "entry-v1"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BERLIN = timezone(timedelta(hours=1))


def an_entry(**changes) -> Entry:
    fields = {
        "id": "mem-01k",
        "version": 1,
        "type": "decision",
        "domain": "main",
        "title": "Use tabs",
        "summary": "All files are indented with tabs.",
        "body": "Because.\n",
        "author": "owner",
        "created": NOON,
        "updated": NOON,
        "classification": Label.internal,
    }
    return Entry(**{**fields, **changes})


GOLDEN_ENTRIES = {
    "least": an_entry(body=""),
    "most": an_entry(
        id="mem-01k4zr3w2m9x0q8v7t6s5r4p3n",
        version=12,
        title="Coding: Rules v1.2",
        summary="Use when: x # not a comment",
        body="---\n\nA rule across the page, then text without a final line break",
        author="session:s-1",
        updated=NOON.replace(microsecond=120),
        classification=Label.confidential,
        trust_tier=Tier.verified,
        status=Status.superseded,
        valid_from=date(2026, 1, 1),
        valid_until=datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN),
        source=("file:notes.md", "https://example.org/a?b=c#d", "mem-01j", "github:octo/repo#7", "transcript:s-0#12"),
        confidence=0.8,
        review_by=date(2027, 1, 1),
        supersedes=("mem-01a", "mem-01b"),
        superseded_by="mem-01z",
        derived_from=("mem-01c",),
        verified=(
            {"when": Verbatim("2026-01-02T09:00:00Z"), "by": "Ada", "oracle": "test", "evidence": ["a: b", "c"]},
        ),
        tags=("alpha", "42", "yes", "C#"),
        aliases=("*Italic*", "用户"),
        always_load=True,
        lifecycle="draft",
        extra={
            "version_note": Verbatim("1.10"),
            "nested": {"list": [[1, 2.5], {"deep": None}], "none": {}},
            "ok": True,
        },
    ),
}

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
line = text.filter(lambda value: not set(value) & set("\n\r\x0b\x0c\x85\u2028\u2029"))
full_line = line.filter(str.strip)
ids = st.from_regex(r"mem-[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=offsets)  # noqa: DTZ001  (the zone is added)
whens = st.none() | st.dates() | moments
many = st.lists(full_line, max_size=3).map(tuple)
many_ids = st.lists(ids, max_size=3).map(tuple)
values = st.recursive(
    text | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
bodies = text | st.text("-\n\r \ufeff.a", max_size=20)
entries = st.builds(
    Entry,
    id=ids,
    version=st.integers(1, 999_999_999),
    type=st.from_regex(r"[a-z][a-z0-9_-]{0,39}", fullmatch=True),
    domain=st.from_regex(r"[a-z0-9]([a-z0-9_-]{0,20}[a-z0-9])?", fullmatch=True).filter(lambda name: len(name) > 4),
    title=full_line,
    summary=line,
    body=bodies,
    author=st.sampled_from(["owner", "librarian", "session:a-1", "tap:web"]),
    created=moments,
    updated=moments,
    classification=st.sampled_from(Label),
    trust_tier=st.sampled_from(Tier),
    status=st.sampled_from(Status),
    valid_from=whens,
    valid_until=whens,
    source=many,
    confidence=st.none() | st.floats(0, 1),
    review_by=st.none() | st.dates(),
    supersedes=many_ids,
    superseded_by=st.none() | ids,
    derived_from=many_ids,
    verified=st.lists(st.dictionaries(text, values, max_size=3), max_size=2).map(tuple),
    tags=many,
    aliases=many,
    always_load=st.booleans(),
    lifecycle=st.none() | line,
    extra=st.dictionaries(text.map(lambda name: f"x{name}"), values, max_size=3),
)


def hand_made(front: str, body: str = "", **changes) -> Entry:
    data = f"---\n{front}---\n{body}".encode()
    given_ = {"domain": "main", "id": "mem-1", "fallback_time": NOON, "fallback_label": Label.internal, **changes}
    return parse(data, **given_)


@pytest.mark.parametrize("name", GOLDEN_ENTRIES)
def test_the_bytes_of_an_entry_are_those_that_were_released(name):
    entry, data = GOLDEN_ENTRIES[name], (GOLDEN / f"{name}.md").read_bytes()
    assert render(entry) == data
    assert parse(data, domain="main", id=entry.id) == entry


@given(entries)
@example(an_entry(body="---\n"))
@example(an_entry(body="\n\n---\n"))
@example(an_entry(body="\r\n"))
@example(an_entry(body="\ufeff"))
@example(an_entry(body="\r"))
def test_every_entry_comes_back_equal_byte_for_byte_in_its_body(entry):
    data = render(entry)
    back = parse(data, domain=entry.domain, id=entry.id)
    assert back == entry
    assert back.body.encode() == entry.body.encode()
    assert render(back) == data


@given(entries)
def test_a_time_keeps_the_offset_that_it_was_given(entry):
    back = parse(render(entry), domain=entry.domain)
    assert back.created.utcoffset() == timedelta(0)
    for field in ("valid_from", "valid_until"):
        before, after = getattr(entry, field), getattr(back, field)
        assert type(before) is type(after)
        if isinstance(before, datetime):
            assert before.utcoffset() == after.utcoffset()


@given(entries)
def test_the_frontmatter_parses_with_a_library_of_yaml_1_1(entry):
    front = render(entry).decode().split("\n---\n", 1)[0]
    fields = yaml.load(front, Loader=yaml.CSafeLoader)
    assert fields["title"] == entry.title
    assert fields["summary"] == entry.summary
    assert tuple(fields.get("aliases", ())) == entry.aliases


def test_an_entry_that_amem_wrote_is_parsed_without_a_yaml_library():
    program = (
        "import sys; from amem_core.format.entry import parse;"
        f"parse(open({str(GOLDEN / 'least.md')!r}, 'rb').read(), domain='main');"
        "sys.exit(bool({'yaml', 'pathlib', 'logging', 'pydantic', 'markdown_it', 'urllib'} & sys.modules.keys()))"
    )
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}"]
    assert subprocess.run(command, check=False).returncode == 0


def test_the_digest_is_the_sha_256_of_the_stored_bytes():
    assert digest(b"abc") == hashlib.sha256(b"abc").hexdigest()


def test_a_hand_made_file_needs_a_title_only():
    entry = hand_made("title: Only this\n", "Text\n")
    assert entry == Entry(
        id="mem-1",
        version=1,
        type="reference",
        domain="main",
        title="Only this",
        summary="Only this",
        body="Text\n",
        author="owner",
        created=NOON,
        updated=NOON,
        classification=Label.internal,
    )


def test_a_hand_made_file_is_refused_where_nothing_stands_in_for_what_it_lacks():
    for lacking, rest in (("classification", "created: 2026-01-01\n"), ("created", "classification: public\n")):
        with pytest.raises(FormatError, match=lacking):
            parse(f"---\ntitle: a\n{rest}---\n".encode(), domain="main", id="mem-1")


@pytest.mark.parametrize("title", ["2026-01-01", "yes", "42", "1.10", "true", "~x", "1:20", "null x", "=", "C#5"])
def test_a_title_is_the_text_that_was_written(title):
    assert hand_made(f"title: {title}\n").title == title


@pytest.mark.parametrize(("type_", "domain"), [("on", "no"), ("null", "1e5"), ("y", "2026-01-01"), ("fact", "0x1")])
def test_a_type_and_a_domain_are_text_to_every_reader_of_yaml(type_, domain):
    entry = an_entry(type=type_, domain=domain)
    read = yaml.safe_load(render(entry).decode().split("---\n")[1])
    assert (read["type"], read["domain"]) == (type_, domain)
    assert parse(render(entry), domain=domain) == entry


@given(entries)
def test_an_entry_that_was_checked_before_has_the_same_bytes(entry):
    assert render(entry, checked=True) == render(entry)


@pytest.mark.parametrize("title", ["null", "~", "", '""', "'  '"])
def test_a_title_of_nothing_is_no_title(title):
    with pytest.raises(FormatError, match="no title"):
        hand_made(f"title: {title}\n")


@pytest.mark.parametrize(
    ("written", "tags"),
    [
        ("alpha", ("alpha",)),
        ("42", ("42",)),
        ("", ()),
        ("null", ()),
        ("[]", ()),
        ("[a, 1.10, yes, null]", ("a", "1.10", "yes")),
        ("\n  - a\n  -\n  - 2026-01-01", ("a", "2026-01-01")),
        ("a, b", ("a, b",)),
    ],
)
def test_one_tag_is_one_tag_and_none_is_none(written, tags):
    assert hand_made(f"title: t\ntags: {written}\n").tags == tags


def test_an_unknown_field_comes_back_as_it_was_written():
    front = "title: t\nversion_note: 1.10\nhex: 0x1F\nplus: +5\nday: 2026-01-01\nyes: on\nlist: [1, 2.50, {a: ~}]\n"
    entry = hand_made(front)
    assert entry.extra["version_note"] == "1.10"
    written = render(entry).decode()
    for kept in ("version_note: 1.10\n", "hex: 0x1F\n", "plus: +5\n", "day: 2026-01-01\n", '"yes": on\n', "- 2.50\n"):
        assert kept in written
    assert parse(written.encode(), domain="main").extra == entry.extra


def test_a_byte_order_mark_and_crlf_are_of_no_consequence():
    plain = "---\ntitle: a\ntags: [b]\n---\n\nOne\n\nTwo\n"
    dos = "\ufeff" + plain.replace("\n", "\r\n")
    assert parse(dos.encode(), domain="main", id="mem-1", fallback_time=NOON, fallback_label=Label.public) == parse(
        plain.encode(), domain="main", id="mem-1", fallback_time=NOON, fallback_label=Label.public
    )


@pytest.mark.parametrize(
    ("rest", "body"),
    [
        ("", ""),
        ("\n", ""),
        ("\n\n", "\n"),
        ("a", "a"),
        ("\na", "a"),
        ("\n\na", "\na"),
        ("a\r\nb", "a\r\nb"),
        ("---\n", "---\n"),
    ],
)
def test_one_empty_line_before_the_body_belongs_to_nobody(rest, body):
    assert hand_made("title: t\n", rest).body == body


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2026-03-29T02:30:00+01:00", datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN)),
        ("2026-03-29T01:30:00Z", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        ("2026-03-29 01:30:00z", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        ("2026-03-29T01:30:00.123456789Z", datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)),
        ("2026-03-29", date(2026, 3, 29)),
    ],
)
def test_a_time_is_its_instant_and_a_date_is_a_day(written, expected):
    entry = hand_made(f"title: t\nvalid_from: {written}\ncreated: {written}\n")
    assert entry.valid_from == expected
    assert type(entry.valid_from) is type(expected)
    day = datetime(2026, 3, 29, tzinfo=UTC)
    assert entry.created == (expected if isinstance(expected, datetime) else day)


@pytest.mark.parametrize(
    ("front", "line", "reason"),
    [
        ("title: a: b\n", 2, "not YAML"),
        ("summary: s\n", 1, "no title"),
        ("title: [a]\n", 2, "title is a list"),
        ("title: {a: b}\n", 2, "title is a mapping"),
        ("title: t\ntags: {a: b}\n", 3, "tags is a mapping"),
        ("title: t\ntags: [[a]]\n", 3, "an item of tags"),
        ("title: t\nid: mem-2\n", 3, "the file is named 'mem-1'"),
        ("title: t\nid: ../x\n", 3, "not the id"),
        ("title: t\ndomain: other\n", 3, "the file lies in 'main'"),
        ("title: t\nversion: 0\n", 3, "version"),
        ("title: t\nversion: 1.0\n", 3, "version"),
        ("title: t\nversion: ٣\n", 3, "version"),
        ("title: t\ntype: Big Words\n", 3, "type"),
        ("title: t\nauthor: gpt-5\n", 3, "author"),
        ("title: t\nclassification: Public\n", 3, "label"),
        ("title: t\ntrust_tier: 3\n", 3, "tier"),
        ("title: t\nstatus: gone\n", 3, "status"),
        ("title: t\nconfidence: 1.1\n", 3, "from 0 to 1"),
        ("title: t\nconfidence: high\n", 3, "from 0 to 1"),
        ("title: t\nconfidence: .nan\n", 3, "from 0 to 1"),
        ("title: t\nalways_load: yes\n", 3, "always_load"),
        ("title: t\ncreated: 2026-01-01T12:00:00\n", 3, "no offset"),
        ("title: t\nvalid_from: 2026-01-01 12:00:00\n", 3, "no offset"),
        ("title: t\nupdated: 2026-02-30\n", 3, "does not exist"),
        ("title: t\ncreated: 2026-01-01T24:00:00Z\n", 3, "not a time"),
        ("title: t\ncreated: yesterday\n", 3, "not a time"),
        ("title: t\ncreated: 0001-01-01T00:00:00+01:00\n", 3, "outside the years"),
        ("title: t\nreview_by: 2026-01-01T00:00:00Z\n", 3, "not a date"),
        ("title: t\nsupersedes: x\n", 3, "not the id"),
        ("title: t\nverified: [yes]\n", 3, "verified"),
        (f"title: {'x' * 4001}\n", 2, "more than 4000"),
    ],
)
def test_a_field_that_breaks_its_rule_is_refused_with_path_line_reason_and_remedy(front, line, reason):
    with pytest.raises(FormatError) as caught:
        hand_made(front, path="record/main/mem-1.md")
    error = caught.value
    assert (error.context["path"], error.context["line"]) == ("record/main/mem-1.md", line)
    assert reason in error.context["reason"]
    assert str(error) == f"record/main/mem-1.md, line {line}: {error.context['reason']}"
    assert error.hint


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b"", 1, "no frontmatter"),
        (b"# A note\n", 1, "no frontmatter"),
        (b"---\ntitle: a\n", 1, "never closed"),
        (b"---\ntitle: a\n---\n\nb\xff\n", 5, "not UTF-8: byte 0xff"),
        (b"---\ntitle: \xed\xa0\x80\n---\n", 2, "not UTF-8"),
        (b"---\ntitle: a\n---\n\nb\0\n", 5, "NUL"),
        (b"---\ntitle: a\n---\n\n" + b"x" * (MAX_BODY + 1), 1, "more than 16 MiB"),
    ],
)
def test_bytes_that_are_no_entry_are_refused_with_their_line(data, line, reason):
    with pytest.raises(FormatError, match=reason) as caught:
        parse(data, domain="main", id="mem-1", fallback_time=NOON, fallback_label=Label.public)
    assert caught.value.context["line"] == line


@given(st.binary(max_size=60) | st.text("-\n: atile\t\r[]\"'\ufeff", max_size=40).map(lambda text: text.encode()))
def test_any_bytes_are_an_entry_or_a_format_error(data):
    for prefix in (b"", b"---\ntitle: a\n"):
        try:
            parse(prefix + data, domain="main", id="mem-1", fallback_time=NOON, fallback_label=Label.public)
        except FormatError as exc:
            problem = exc
        else:
            continue
        assert problem.context.keys() >= {"path", "line", "reason"}


def test_an_id_is_compared_without_regard_to_case():
    assert hand_made("title: t\nid: MEM-1\n", id="Mem-1").id == "mem-1"


@pytest.mark.parametrize("field", ["title", "summary", "body", "source"])
@pytest.mark.parametrize(("bad", "name"), [("a\0b", "NUL"), ("a\ud83db", "U+D83D"), ("a\udc00", "U+DC00")])
def test_what_is_no_text_is_refused_with_its_field_and_position(field, bad, name):
    with pytest.raises(InvalidError) as caught:
        clean_text(bad, field)
    assert (caught.value.context["field"], caught.value.context["position"]) == (field, 1)
    assert name in str(caught.value)
    with pytest.raises(InvalidError):
        render(an_entry(**{field: (bad,) if field == "source" else bad}))


@pytest.mark.parametrize(
    ("given_", "field", "kept"),
    [
        ("a\r\nb\rc\n", "body", "a\nb\rc\n"),
        ("  x  ", "body", "  x  "),
        (" a \r\n b\n\nc ", "title", "a b c"),
        ("a\u2028b\x85c", "summary", "a b c"),
        ("a\tb  c", "title", "a\tb  c"),
        ("😀", "title", "😀"),
    ],
)
def test_text_is_cleaned_by_one_rule(given_, field, kept):
    assert clean_text(given_, field) == kept


@given(text, st.sampled_from(["title", "summary", "body"]))
def test_cleaned_text_stays_as_it_is(value, field):
    cleaned = clean_text(value, field)
    assert clean_text(cleaned, field) == cleaned


def test_long_titles_are_kept_to_the_last_character():
    titles = ["x" * 200 + "a", "x" * 200 + "b", "y" * 2000, "z" * 4000]
    for title in titles:
        entry = an_entry(title=clean_text(title, "title"))
        assert parse(render(entry), domain="main").title == title


@pytest.mark.parametrize(
    ("value", "field"),
    [("x" * 4001, "title"), ("x" * 4001, "summary"), ("é" * (MAX_BODY // 2 + 1), "body"), (7, "title")],
)
def test_text_beyond_its_limit_is_refused(value, field):
    with pytest.raises(InvalidError, match=field):
        clean_text(value, field)


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "mem-A"},
        {"id": "x"},
        {"domain": "../x"},
        {"type": "Fact"},
        {"author": "gpt-5"},
        {"version": 0},
        {"version": True},
        {"title": " "},
        {"title": "a\nb"},
        {"summary": "a\u2028b"},
        {"summary": None},
        {"created": NOON.replace(tzinfo=None)},
        {"created": date(2026, 1, 1)},
        {"valid_from": NOON.replace(tzinfo=None)},
        {"valid_until": NOON.astimezone(timezone(timedelta(seconds=30)))},
        {"valid_from": "2026-01-01"},
        {"review_by": NOON},
        {"classification": 1},
        {"status": "active"},
        {"confidence": 1.5},
        {"confidence": True},
        {"confidence": float("nan")},
        {"always_load": 1},
        {"tags": ("",)},
        {"aliases": ("a\nb",)},
        {"supersedes": ("MEM-1",)},
        {"superseded_by": "x"},
        {"extra": {"title": "x"}},
        {"extra": {"note": object()}},
        {"extra": {"note": "\ud800"}},
        {"extra": {"note": "x" * 300_000}},
    ],
)
def test_an_entry_that_could_not_be_read_back_is_never_rendered(changes):
    with pytest.raises(InvalidError) as caught:
        render(replace(an_entry(), **changes))
    assert caught.value.hint


@pytest.mark.parametrize(
    "source",
    [
        "file:notes.md",
        "file:a b.md#c",
        "http://example.org",
        "https://example.org/a b",
        "mem-01k",
        "mem-01k#method",
        "transcript:s-1#12",
        "github:octo/repo",
        "github:octo/repo#12",
        "github:octo/repo@abc:src/a.py",
    ],
)
def test_a_source_that_a_reader_can_check_is_taken(source):
    check_entry(an_entry(source=(source,)))


@pytest.mark.parametrize(
    "source", ["file:", "ftp://example.org", "the owner said so", "mem-", "http:x", "javascript:1", "github:"]
)
def test_a_source_that_nobody_can_check_is_refused_at_the_gate_and_kept_in_a_file(source):
    with pytest.raises(InvalidError, match="source"):
        check_entry(an_entry(source=(source,)))
    assert hand_made(f'title: t\nsource: ["{source}"]\n').source == (source,)


@pytest.mark.parametrize(
    ("valid_from", "valid_until", "holds"),
    [
        (date(2026, 1, 1), date(2026, 1, 1), True),
        (date(2026, 1, 2), date(2026, 1, 1), False),
        (datetime(2026, 1, 1, 23, tzinfo=UTC), date(2026, 1, 1), True),
        (datetime(2026, 1, 2, tzinfo=BERLIN), datetime(2026, 1, 1, 23, tzinfo=UTC), True),
        (datetime(2026, 1, 2, 1, tzinfo=UTC), datetime(2026, 1, 2, 1, tzinfo=BERLIN), False),
        (None, date(2026, 1, 1), True),
        (date.max, date.max, True),
    ],
)
def test_what_begins_to_be_true_does_not_end_before(valid_from, valid_until, holds):
    entry = an_entry(valid_from=valid_from, valid_until=valid_until)
    if holds:
        check_entry(entry)
        return
    with pytest.raises(InvalidError, match="before"):
        check_entry(entry)
