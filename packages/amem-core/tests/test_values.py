"""A value is known again in whatever dress, and is never taken for another."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from amem_core.domain.values import STANDS_ALONE, normalised, value_keys

TEXT = st.text(max_size=60)
LONG = "the staging box listens on port 8080 behind the proxy"
UNSEEN = "\u200b\u200d\u2060\ufeff\u00ad\ufe0f"


def dressed(text: str) -> list[str]:
    """Return the text in other cases, spacings and Unicode forms."""
    return [
        text.upper(),
        f"  {text}\n",
        text.replace(" ", "\t  "),
        UNSEEN.join(text),
        "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text),
        unicodedata.normalize("NFD", text),
    ]


def test_a_value_has_the_same_keys_in_every_dress():
    for title, body in (("Port", "8080"), ("Größe", "Maß ﬁx"), ("Port", LONG), ("Ünïcode", "Ångström é")):
        for other in dressed(title):
            assert value_keys(other, "", body) == value_keys(title, "", body)
        for other in dressed(body):
            assert value_keys(title, "", other) == value_keys(title, "", body)


def test_words_that_move_between_title_and_body_make_another_value():
    assert value_keys("a", "", "b c") != value_keys("a b", "", "c")
    assert value_keys("a", "b", "") == value_keys("a", "", "b")
    assert value_keys("", "", "a") != value_keys("a", "", "")


def test_a_short_text_is_a_value_only_with_its_title_and_a_long_one_by_itself():
    assert not set(value_keys("Postgres", "", "version 14")) & set(value_keys("Redis", "", "version 14"))
    assert set(value_keys("Staging", "", LONG)) & set(value_keys("The port", "", LONG))
    assert len(value_keys("t", "", "x" * STANDS_ALONE)) == 2
    assert len(value_keys("t", "", "x" * (STANDS_ALONE - 1))) == 1


def test_a_summary_beside_a_body_does_not_change_the_value():
    assert value_keys("t", "one", LONG) == value_keys("t", "two", LONG)


@given(TEXT, TEXT, TEXT, TEXT)
def test_two_values_share_a_key_only_when_they_say_the_same(title, body, other_title, other_body):
    shared = set(value_keys(title, "", body)) & set(value_keys(other_title, "", other_body))
    same_body = normalised(body) == normalised(other_body)
    same_title = normalised(title) == normalised(other_title)
    assert bool(shared) == (same_body and (same_title or len(normalised(body)) >= STANDS_ALONE))


@given(st.text())
def test_normalising_again_changes_nothing(text):
    assert normalised(normalised(text)) == normalised(text)
