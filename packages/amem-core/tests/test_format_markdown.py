"""Sections of ordinary documents: what is a heading, what belongs to it, and that no text is lost."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amem_core.errors import FormatError
from amem_core.format.markdown import MAX_SUMMARY, sections

GOLDEN = Path(__file__).parent / "golden" / "markdown-v1"


def titles(text: str, name: str = "note.md") -> list[str]:
    return [section.title for section in sections(text, name=name)]


def test_the_sections_of_a_document_are_those_that_were_released():
    text = (GOLDEN / "guide.md").read_text(encoding="utf-8")
    found = json.loads(json.dumps([asdict(section) for section in sections(text, name="docs/guide.md")]))
    assert found == json.loads((GOLDEN / "guide.json").read_text(encoding="utf-8"))


def test_headings_of_both_kinds_begin_sections_and_their_parents_are_known():
    text = "# A\na\n\nB\n---\nb\n\n### C ###\nc\n## D\nd\n"
    found = [(section.title, section.level, section.parents, section.body) for section in sections(text, name="x.md")]
    assert found == [
        ("A", 1, (), "a\n"),
        ("B", 2, ("A",), "b\n"),
        ("C", 3, ("A", "B"), "c\n"),
        ("D", 2, ("A",), "d\n"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "```\n# a\n```\n",
        "~~~\n# a\n",
        "    # a\n",
        "> # a\n",
        "- # a\n",
        "1. a\n   ---\n",
        "<div>\n# a\n</div>\n",
        "<!--\n# a\n-->\n",
        "#a\n",
        "\\# a\n",
        "---\n\na\n\n---\n",
    ],
)
def test_what_only_looks_like_a_heading_is_text(text):
    (section,) = sections(text, name="note.md")
    assert (section.title, section.level) == ("note", 0)
    assert section.body == text


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: From the fields\n---\n# Head\na\n", "From the fields"),
        ("---\ntitle: 2026-01-01\n---\na\n", "2026-01-01"),
        ("---\ntitle:\n---\n# Head\na\n", "Head"),
        ("---\ntitle: [a]\n---\na\n", "the note"),
        ("# Head\na\n", "Head"),
        ("a\n# Head\n", "Head"),
        ("## Head\na\n", "the note"),
        ("a\n", "the note"),
    ],
)
def test_a_document_is_named_by_its_fields_then_its_first_heading_then_its_file(text, title):
    assert {section.document for section in sections(text, name="docs/the note.md")} == {title}


def test_tags_are_on_every_section_and_aliases_on_the_first():
    text = "---\ntags: alpha\naliases: [x, 42, null]\n---\na\n# B\nb\n"
    assert [(section.tags, section.aliases) for section in sections(text, name="a.md")] == [
        (("alpha",), ("x", "42")),
        (("alpha",), ()),
    ]


def test_a_byte_order_mark_and_crlf_change_nothing():
    text = (GOLDEN / "guide.md").read_text(encoding="utf-8")
    assert sections("\ufeff" + text.replace("\n", "\r\n"), name="guide.md") == sections(text, name="guide.md")


@pytest.mark.parametrize(
    ("text", "line"), [("---\ntitle: a: b\n---\nbody\n", 2), ("---\ntitle: a\nbody\n", 1), ("---\n- a\n---\n", 2)]
)
def test_broken_frontmatter_is_refused_with_its_line(text, line):
    with pytest.raises(FormatError) as caught:
        sections(text, name="docs/a.md")
    assert (caught.value.context["path"], caught.value.context["line"]) == ("docs/a.md", line)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n \n", []),
        ("---\ntitle: a\n---\n", []),
        ("# A\n## B\nb\n", ["B"]),
        ("# A\n## B\n", ["B"]),
        ("# A\n\n# B\n", ["A", "B"]),
        ("# A\n## B\n# C\nc\n", ["B", "C"]),
    ],
)
def test_a_heading_without_text_is_a_section_unless_a_deeper_one_names_it(text, expected):
    assert titles(text) == expected


def test_a_heading_without_words_takes_the_name_of_its_document():
    assert titles("# Doc\na\n##\nb\n## ![](x.png)\nc\n") == ["Doc", "Doc", "Doc"]


def test_anchors_are_paths_of_headings_and_number_what_is_alike():
    text = "intro\n# A b\na\n## Usage!\na\n## Usage\na\n### Deep\na\n# A B\na\n## Usage\na\n# 用户 😀\na\n# 😀\na\n"
    assert [section.anchor for section in sections(text, name="x.md")] == [
        "_top",
        "a-b",
        "a-b/usage",
        "a-b/usage-2",
        "a-b/usage-2/deep",
        "a-b-2",
        "a-b-2/usage",
        "用户",
        "section",
    ]


def test_an_anchor_does_not_move_when_other_text_does():
    before = {section.title: section.anchor for section in sections("# A\na\n# B\nb\n", name="x.md")}
    after = {section.title: section.anchor for section in sections("# New\n\nn\n# A\nlonger\n# B\n", name="x.md")}
    assert before.items() <= after.items()


def test_links_are_relative_paths_and_web_addresses_once_each():
    text = (
        "# A [t](t.md)\n[a](b%20c.md#d) ![i](i.png) <http://x.org> [a](b%20c.md#d) [m](mailto:a@b.c) [f](#f) [r] [d](//h)\n"
        "## Other\n[r]: r.md\n"
    )
    first, other = sections(text, name="x.md")
    assert first.links == ("t.md", "b c.md#d", "i.png", "http://x.org", "r.md")
    assert other.links == ()


@pytest.mark.parametrize(
    ("body", "summary"),
    [
        ("One. Two.", "One. Two."),
        ("A *b* `c` [d](e)\nf ![g](h) <b>i</b>", "A b c d f g i"),
        ("First.\n\nSecond one.", "First. Second one."),
        ("Short. " + "long " * 80 + "end.", "Short."),
        ("用户喜欢深色模式。" * 40, "用户喜欢深色模式。" * 33),
        ("```\nls -l\n```", "Note, Head: ls -l"),
        ("", "Note, Head"),
        ("| a | b |\n| - | - |\n| c | d |", "a b c d"),
    ],
)
def test_a_summary_is_the_first_sentences_or_says_where_it_stands(body, summary):
    (section,) = sections(f"---\ntitle: Note\n---\n# Head\n{body}\n", name="x.md")
    assert section.summary == summary


def test_a_summary_under_a_title_that_says_nothing_names_the_document():
    text = "# Indenter\n## Usage\nRun it.\n## Tabs\nUse them.\n## Tabs\nAlways.\n"
    assert [section.summary for section in sections(text, name="x.md")] == [
        "Indenter, Usage: Run it.",
        "Indenter, Tabs: Use them.",
        "Indenter, Tabs: Always.",
    ]


@pytest.mark.parametrize("unit", ["😀", "👩‍🚀", "e\u0301", "👍🏽", "字", "x", "1\ufe0f\u20e3"])
def test_a_summary_is_cut_between_whole_characters(unit):
    for shift in range(12):
        (section,) = sections("a" * shift + unit * 400, name="x.md")
        assert len(section.summary) <= MAX_SUMMARY
        kept = section.summary[shift:].removesuffix("…")
        assert kept == unit * (len(kept) // len(unit))


def test_a_heading_longer_than_a_title_is_kept_whole_in_the_text():
    (section,) = sections(f"# {'word ' * 1000}\nbody\n", name="x.md")
    assert len(section.title) <= 4000
    assert section.body == f"{('word ' * 1000).strip()}\n\nbody\n"


def test_a_document_of_many_equal_headings_takes_no_longer_than_its_length():
    found = sections("# Same\na\n" * 5000, name="x.md")
    assert len({section.anchor for section in found}) == 5000


@given(
    st.lists(
        st.sampled_from(
            [
                "# A", "## B", "### C c", "#", "Setext", "===", "---", "text", "more text.", "", "", "    code", "```", "> q",
                "> # q", "- i", "  - j", "- # k", "<div>", "</div>", "[a](b.md)", "[r]: x.md", "| a | b |", "|---|---|", "\t", "***",
            ]
        )
    ).map("\n".join)
    | st.text("# -=\n`>ab.\t\r\x0b\x85\u2028😀", max_size=60)
)  # fmt: skip
@example("---\n---\n")
def test_every_line_of_a_document_is_in_one_section_or_is_a_heading(text):
    try:
        found = sections(text, name="x.md")
    except FormatError:
        return
    assert len({section.anchor for section in found}) == len(found)
    source = text.replace("\r\n", "\n").replace("\r", "\n")
    at = 0
    for section in found:
        assert section.title.strip()
        assert 0 < len(section.summary) <= MAX_SUMMARY
        assert section.body == "" or section.body.endswith("\n")
        where = source.find(section.body.removesuffix("\n"), at)
        assert where >= at
        at = where + len(section.body.removesuffix("\n"))
    kept = "".join(section.body + section.title + "".join(section.parents) for section in found)
    for word in ("text", "more text.", "code", "Setext"):
        assert kept.count(word) >= source.count(word)
