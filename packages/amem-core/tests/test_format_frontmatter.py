"""Frontmatter: every value comes back, whoever reads it; YAML's surprises stay out."""

from __future__ import annotations

import io

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from amem_core.errors import FormatError, InvalidError
from amem_core.format import frontmatter
from amem_core.format.frontmatter import List, Map, Scalar, Verbatim, parse, render_fields, split, value

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
tricky = st.sampled_from(
    [
        "yes", "No", "ON", "y", "null", "~", "", " ", "true", "1.10", "0x1F", "0o7", "017", "1_000", "+5", "-", "--",
        "---", "...", "- a", "a: b", "a:", "a #b", "#a", "*a", "&a", "!a", "@a", "`a", "%a", "?", "? a", ":", "|", ">",
        "'a", '"a', "a'b", 'a"b', "[a", "{a", "a]", "a,b", "=", "<<", "1:20", "2026-01-01", "2026-01-01 12:00:00 +1",
        "1e3", "1.0e+3", ".inf", "-.INF", ".nan", "0b11", " a", "a ", "\ta", "a\tb", "a\nb", "a\r\nb", "\x85", "a\u2028b",
        "\ufeffa", "a\ufeff", "\xa0a", "\u3000", "\x7f", "\x9f", "\u202ea", "😀", "😀 a", "\U0010ffff", "\ue000", "C#", "\\",
        "C:\\dir", "http://x.org/a?b#c", "user's", "café", "用户", "a: [b]", "key: |", "\\u0041", "x" * 5000,
    ]
)  # fmt: skip
texts = text | tricky
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20) | tricky.filter(
    lambda name: len(name) <= 150
)
numbers = st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    texts | numbers | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)


def read(source: str) -> dict:
    return {name: value(node) for name, node in parse(source).items()}


def problem_of(source: str) -> FormatError | None:
    try:
        read(source)
    except FormatError as exc:
        return exc
    return None


def shape(node):
    """What two parsers must agree on."""
    if isinstance(node, Scalar):
        return (node.text, node.plain, node.line)
    if isinstance(node, List):
        return [shape(item) for item in node.items]
    return {name: shape(inner) for name, inner in node.fields.items()}


@given(st.dictionaries(names, values, max_size=5))
@example({"a": [[["b"], {}], [{"c": ["d" * 200]}]]})
def test_what_is_rendered_parses_to_the_same(fields):
    assert list(read(render_fields(fields.items())).items()) == list(fields.items())


@given(
    st.dictionaries(names, texts | st.lists(texts, max_size=4) | st.dictionaries(names, texts, max_size=3), max_size=5)
)
def test_text_is_the_same_text_to_readers_of_yaml_1_2_and_of_yaml_1_1(fields):
    rendered = render_fields(fields.items())
    if not fields:
        return
    assert YAML(typ="safe", pure=True).load(io.StringIO(rendered)) == fields
    assert yaml.load(rendered, Loader=yaml.SafeLoader) == fields
    assert yaml.load(rendered, Loader=yaml.CSafeLoader) == fields


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), numbers | st.booleans() | st.none(), min_size=1))
def test_numbers_and_truths_are_the_same_to_readers_of_yaml_1_2_and_of_yaml_1_1(fields):
    rendered = render_fields(fields.items())
    assert YAML(typ="safe", pure=True).load(io.StringIO(rendered)) == fields
    assert yaml.load(rendered, Loader=yaml.CSafeLoader) == fields


@given(st.dictionaries(names, values, max_size=5))
def test_the_scanner_reads_what_the_library_reads_or_nothing(fields):
    rendered = render_fields(fields.items())
    scanned = frontmatter.scan(rendered, 2)
    if scanned is not None:
        assert shape(Map(scanned, 2)) == shape(Map(frontmatter.load(rendered, 2), 2))


@given(
    st.lists(
        st.builds(
            lambda name, separator, word: name + separator + word,
            st.sampled_from(["a", "b", "title", "_x", "y", "  - ", "- ", "A1"]),
            st.sampled_from([": ", ":", ":  ", " : ", ""]),
            texts.filter(lambda word: "\n" not in word)
            | st.text("ab1 \"'[]{},:#-+.\\u0eE_", max_size=12)
            | st.lists(st.sampled_from(["a", "1", '"x"', '""', "a b", "", " ", "'c'", "[d]"])).map(
                lambda words: "[" + ", ".join(words) + "]"
            ),
        ),
        max_size=4,
    )
)
@example(["a: [0"])
@example(["a: [a, ]"])
@example(["a: [ ]"])
def test_the_scanner_agrees_with_the_library_on_text_that_amem_did_not_write(lines):
    source = "\n".join(lines) + "\n"
    scanned = frontmatter.scan(source, 2)
    if scanned is not None:
        assert shape(Map(scanned, 2)) == shape(Map(frontmatter.load(source, 2), 2))


@given(st.text("ab:-[]{}&*!|>'\"%@#?, \n\t1~=<.\\\x85\u2028\x00", max_size=40))
def test_any_text_parses_or_is_refused_with_a_line(source):
    problem = problem_of(source)
    if problem is not None:
        assert 2 <= problem.context["line"] <= source.count("\n") + 3
        assert problem.context["reason"]


def test_what_amem_writes_is_read_without_a_yaml_library():
    rendered = render_fields(
        [
            ("title", "a: b"),
            ("created", Verbatim("2026-01-01T12:00:00Z")),
            ("tags", ["a", "C#"]),
            ("source", ["x" * 99] * 2),
        ]
    )
    assert frontmatter.scan(rendered, 2) is not None


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("yes", "yes"),
        ("off", "off"),
        ("y", "y"),
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T12:00:00Z", "2026-01-01T12:00:00Z"),
        ("1:20", "1:20"),
        ("017", "017"),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("1.10", "1.10"),
        ("0x1F", "0x1F"),
        ("0o7", "0o7"),
        ("+5", "+5"),
        ("-0", "-0"),
        ("1e3", "1e3"),
        (".5", ".5"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1e999", "1e999"),
        ("0.1000000000000000055", "0.1000000000000000055"),
        ("9" * 400, "9" * 400),
        ("12", 12),
        ("-12", -12),
        ("1.5", 1.5),
        ("-0.0", -0.0),
        ("1.0e+16", 1e16),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("Null", None),
        ("", None),
        ("'1.10'", "1.10"),
        ('"yes"', "yes"),
        ("! yes", "yes"),
        ("!!str 12", "12"),
        ("=", "="),
        ("<<", "<<"),
        ("a\u2028b", "a\u2028b"),
        ("a\x85b", "a\x85b"),
        ('"a\u2029b"', "a\u2029b"),
        ("|\n  a\n  b\n", "a\nb\n"),
        ("{b: [1, c: d]}", {"b": [1, {"c": "d"}]}),
    ],
)
def test_a_value_means_what_the_core_schema_says(source, expected):
    got = read(f"a: {source}\n")["a"]
    assert got == expected
    assert type(got) is type(expected) or isinstance(got, Verbatim)


@pytest.mark.parametrize(
    "source",
    [
        "1.10",
        "0x1F",
        "0o7",
        "+5",
        "-0",
        "1e3",
        "017",
        "1_000",
        "1:20",
        "yes",
        "2026-01-01",
        "2001-12-14 21:59:43.10 -5",
        ".nan",
    ],
)
def test_a_scalar_that_rendering_would_change_is_written_back_as_it_was(source):
    for form in (f"a: {source}\n", f"a: [{source}]\n", f"a:\n  b: {source}\n"):
        assert render_fields(read(form).items()) == form


def test_text_made_verbatim_by_mistake_is_quoted_all_the_same():
    assert render_fields([("a", Verbatim("b: c\nd: e"))]) == 'a: "b: c\\nd: e"\n'


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        ("a: 1\na: 2\n", 3, "stands twice"),
        ("a: {b: 1, b: 2}\n", 2, "stands twice"),
        ('a: 1\n"a": 2\n', 3, "stands twice"),
        ("1: a\n", 2, "not text"),
        ("null: a\n", 2, "not text"),
        ("0x1F: a\n", 2, "not text"),
        ("? [a]\n: b\n", 2, "not text"),
        ("title: a: b\n", 2, "mapping values are not allowed"),
        ("ok: 1\na: &x [1]\nb: *x\n", 3, "alias"),
        ("a: &x {b: *x}\n", 2, "alias"),
        ("a: !secret b\n", 2, "tag"),
        ("a: !!int 5\n", 2, "tag"),
        ("a: !!python/object:os.system {}\n", 2, "tag"),
        ("a: !!set {b}\n", 2, "tag"),
        ("- a\n", 2, "not a mapping"),
        ("a\n", 2, "not a mapping"),
        ("a: b\n\tc: d\n", 3, ""),
        ("a: b\x07\n", 2, "U+0007"),
        ("a: 1\nb: \ufeffx\n", 3, "U+FEFF"),
        ("a: " + "[" * 40 + "]" * 40 + "\n", 2, "deeper than 32"),
        ("a: " + "[" * 100_000 + "\n", 2, "nesting"),
        ('a: 1\nb: "\\0"\n', 3, "NUL"),
        ('a: "\\u0000"\n', 2, "NUL"),
        ("x" * 151 + ": 1\n", 2, "more than 150"),
        ("%YAML 1.1\na: yes\n", 2, ""),
        ("a: 1\n...\nb: 2\n", 3, ""),
    ],
)
def test_what_the_form_excludes_is_refused_with_its_line(source, line, reason):
    with pytest.raises(FormatError) as caught:
        parse(source)
    assert abs(caught.value.context["line"] - line) <= (0 if reason else 1)
    assert reason in caught.value.context["reason"]


def test_a_bomb_of_aliases_costs_nothing():
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    with pytest.raises(FormatError, match="alias"):
        parse(bomb)


@pytest.mark.parametrize(
    "unkeepable",
    ["a\0", {"\0": 1}, float("nan"), float("inf"), object(), b"x", {1: 2}, {"k" * 151: 1}, {"a": {1, 2}}],
)
def test_a_value_that_frontmatter_cannot_keep_is_refused(unkeepable):
    with pytest.raises(InvalidError):
        render_fields([("a", unkeepable)])


def test_an_integer_of_thousands_of_digits_is_refused():
    with pytest.raises(InvalidError):
        render_fields([("a", 10**5000)])


def test_a_value_that_contains_itself_is_refused():
    loop: list = []
    loop.append(loop)
    with pytest.raises(InvalidError, match="deeper"):
        render_fields([("a", loop)])


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("---\na: 1\n---\nbody", ("a: 1\n", 13)),
        ("---\n---\n", ("", 8)),
        ("--- \na: 1\n---\t\n---\n", ("a: 1\n", 15)),
        ("---\na: 1\n---", ("a: 1\n", 12)),
        ("no\n---\n", None),
        ("----\n", None),
        ("", None),
    ],
)
def test_frontmatter_ends_at_the_first_line_that_closes_it(document, expected):
    assert split(document) == expected


@pytest.mark.parametrize("document", ["---\na: 1\n", "---", "---\n" + "a" * 300_000 + "\n---\n"])
def test_frontmatter_that_does_not_close_or_is_too_large_is_refused(document):
    with pytest.raises(FormatError):
        split(document)
