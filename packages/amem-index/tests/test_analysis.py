"""What becomes a word, seen through what is asked of FTS5."""

from __future__ import annotations

import sqlite3
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amem_index.analysis import TOKENIZER, clean, exact_terms, expressions, normalised, segmented


def test_a_plain_question_asks_for_all_words_and_then_for_some() -> None:
    assert expressions("Walrus oyster") == ('"walrus" AND "oyster"', '"walrus" OR "oyster"')


def test_one_plain_word_is_asked_once() -> None:
    assert expressions("walrus") == ('"walrus"',)


def test_common_words_are_dropped_only_beside_others() -> None:
    assert expressions("what is the walrus") == ('"walrus"',)
    assert expressions("to be") == ('"to" AND "be"', '"to" OR "be"')


def test_a_term_with_symbols_is_asked_exactly_so_first() -> None:
    strictest, together, some = expressions("foo-bar")
    assert strictest == f'"{exact_terms(["foo-bar"])}"'
    assert together.startswith('(("foo" AND "bar") OR "foo bar" OR ')
    assert some.startswith('"foo" OR "bar" OR "foo bar" OR ')


@pytest.mark.parametrize("text", ["", " ", "*", "👍", "\x00", "\ud800", "…", "--", "\u200b"])
def test_text_without_a_word_asks_nothing(text: str) -> None:
    assert expressions(text) == ()


def test_a_pasted_page_is_cut_to_a_bounded_question() -> None:
    asked = expressions(" ".join(f"w{number}" for number in range(10_000)))
    assert asked[0].count(" AND ") < 200


def test_two_neighbours_of_a_script_without_spaces_are_one_word() -> None:
    assert segmented("用户喜欢").split() == ["用户", "户喜", "喜欢", "欢"]
    assert expressions("用户喜欢")[0] == '"用户 户喜 喜欢"'
    assert expressions("用") == ('"用" *',)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("C++, C# and (GB/s).", ["c++", "c#", "gb/s"]),
        ("“user’s” title:x", ["user's", "title:x"]),  # noqa: RUF001  (the typographic apostrophe is the point)
        ("**bold** _it_ `x` end.", []),
        ("src/a_b/c.py", ["src/a_b/c.py", "a_b", "c.py"]),
        ("使用C++编程", ["c++"]),
        ("... .NET --flag", [".net", "--flag"]),
    ],
)
def test_terms_with_symbols_are_kept_without_what_a_sentence_puts_around_them(text: str, terms: list[str]) -> None:
    assert exact_terms([normalised(text)]).split() == exact_terms(terms).split()


def test_different_terms_have_different_forms() -> None:
    terms = [
        "c++",
        "c#",
        "c+",
        "c-plus",
        "cq2bq",
        "c.q",
        "c_q",
        "foo-bar",
        "foo.bar",
        "foo_bar",
        "foo/bar",
        "fooq2dqbar",
    ]
    encoded = [exact_terms([term]).split(" ")[0] for term in terms]
    assert len({form for form in encoded if form}) == len([form for form in encoded if form])


def test_clean_makes_any_text_encodable() -> None:
    assert clean("a\ud800b\udfffé") == "a\ufffdb\ufffdé"
    assert clean("plain") == "plain"


@given(text=st.text(st.characters(codec="utf-8"), max_size=30))
def test_every_word_of_a_text_is_a_word_to_the_tokenizer_too(text: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute(f'CREATE VIRTUAL TABLE words USING fts5(text, exact, tokenize="{TOKENIZER}")')
    ready = normalised(text)
    connection.execute("INSERT INTO words VALUES(?, ?)", (segmented(ready).replace("\x00", " "), exact_terms([ready])))
    for expression in expressions(text):
        found = connection.execute("SELECT count(*) FROM words WHERE words MATCH ?", (expression,)).fetchone()[0]
        assert found == 1, (text, expression)
    connection.close()


@given(text=st.text(max_size=30))
def test_normal_form_does_not_depend_on_how_a_text_is_composed(text: str) -> None:
    assert normalised(unicodedata.normalize("NFD", text)) == normalised(unicodedata.normalize("NFC", text))
