"""A question is text: every word counts, no character is syntax, and where a word stands decides the rank."""

from __future__ import annotations

from typing import Any

import pytest

from amem_conformance.suite.index._making import EVERYTHING, ask, doc, put
from amem_core.domain.queries import Query
from amem_core.ports.index import Index

FILLER = [doc(f"filler{n}", "nothing of interest stands in here") for n in range(6)]


@pytest.mark.requirement("index:search:finds-by-each-field")
@pytest.mark.parametrize("field", ["title", "summary", "aliases", "tags"])
def test_an_entry_is_found_by_a_word_of_its_title_summary_alias_or_tag(backend: Index, field: str) -> None:
    fields: dict[str, Any] = {field: ("walrus",) if field in {"aliases", "tags"} else "a walrus"}
    put(backend, *FILLER, doc("a", **fields))
    assert ask(backend, "walrus") == ["a"]


@pytest.mark.requirement("index:search:finds-by-each-field")
def test_an_entry_is_found_by_a_word_of_its_body(backend: Index) -> None:
    put(backend, *FILLER, doc("a", "there is a walrus"))
    assert ask(backend, "walrus") == ["a"]


@pytest.mark.requirement("index:search:case-and-accents")
@pytest.mark.parametrize("question", ["NAÏVE", "naïve", "nai\u0308ve", "Naïve"])
def test_case_and_the_way_an_accent_is_written_make_no_difference(backend: Index, question: str) -> None:
    put(backend, *FILLER, doc("a", "a Naïve remark"))
    assert ask(backend, question) == ["a"]


@pytest.mark.requirement("index:search:compatible-forms")
def test_full_width_and_ligature_forms_are_their_plain_letters(backend: Index) -> None:
    put(backend, *FILLER, doc("wide", "\uff37\uff21\uff2c\uff32\uff35\uff33"), doc("ligature", "ﬁnch"))
    assert ask(backend, "walrus") == ["wide"]
    assert ask(backend, "finch") == ["ligature"]


@pytest.mark.requirement("index:rank:title-over-summary-over-body")
def test_a_word_in_the_title_outranks_the_summary_and_that_the_body(backend: Index) -> None:
    put(
        backend,
        *FILLER,
        doc("b", "walrus here", title="one two", summary="three four"),
        doc("s", "five six", title="one two", summary="walrus here"),
        doc("t", "five six", title="walrus here", summary="three four"),
    )
    assert ask(backend, "walrus") == ["t", "s", "b"]


@pytest.mark.requirement("index:rank:all-words-first")
def test_entries_with_all_words_come_before_entries_with_some(backend: Index) -> None:
    put(
        backend,
        *FILLER,
        doc("some", "walrus walrus walrus", title="walrus", summary="walrus"),
        doc("all", "far down it says walrus and, much later and among many other words, carpenter"),
        doc("other", "carpenter", title="carpenter"),
    )
    found = ask(backend, "walrus carpenter")
    assert found[0] == "all"
    assert sorted(found[1:]) == ["other", "some"]


@pytest.mark.requirement("index:rank:scores-fall")
def test_scores_never_rise_from_first_to_last(backend: Index) -> None:
    put(
        backend,
        *FILLER,
        doc("some", "walrus", title="walrus", aliases=("walrus",)),
        doc("all", "walrus and carpenter " + "word " * 400),
        doc("exact", "walrus-carpenter " + "word " * 400),
    )
    hits = backend.search(Query(text="walrus-carpenter", readable=EVERYTHING))
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert all(score > 0 for score in scores)


@pytest.mark.requirement("index:rank:ties-by-id")
def test_equal_entries_are_ordered_by_id_whatever_the_limit(backend: Index) -> None:
    put(backend, *[doc(f"n{number:02}", "the same walrus") for number in (7, 3, 11, 1, 9, 5)], *FILLER)
    assert ask(backend, "walrus") == ["n01", "n03", "n05", "n07", "n09", "n11"]
    assert ask(backend, "walrus", limit=2) == ["n01", "n03"]


@pytest.mark.requirement("index:search:limit")
def test_the_limit_is_kept_and_one_below_one_asks_for_nothing(backend: Index) -> None:
    put(backend, *[doc(f"n{number}", "walrus") for number in range(5)])
    assert len(ask(backend, "walrus", limit=3)) == 3
    assert len(ask(backend, "walrus carpenter", limit=2)) == 2
    assert ask(backend, "walrus", limit=0) == []
    assert ask(backend, "walrus", limit=-1) == []


OPERATORS = [
    "ADR-016", "foo-bar", "C++", "C#", "GB/s", "user's", '"unclosed', "a AND", "NEAR(", "title:x", "*", "\\", "",
    "AND", "OR", "NOT walrus", "NEAR(a b, 2)", "^walrus", "{title} : x", "-walrus", "+walrus", "wal*", "(", ")", "'",
    '"', '""', ";", "--", "%", "_", "walrus; DROP TABLE doc", "a:b:c", "[x]", "a\x00b", "\x00", "\ud800", "x\udfffy",
    "\u202e", "👍", "👩‍👩‍👧 walrus", "\n\t", "½", "x" * 5000, "walrus " * 2000, "/", "a&&b || !c", "~0.5", "walrus^2",
    "TO", "[a TO b]", "field:*", "?", "\uffff", "\U0010ffff",
]  # fmt: skip


@pytest.mark.requirement("index:search:no-syntax")
@pytest.mark.parametrize("question", OPERATORS)
def test_no_question_is_a_syntax_error(backend: Index, question: str) -> None:
    put(backend, *FILLER, doc("a", "walrus"))
    assert set(ask(backend, question)) <= {"a", *(f"filler{n}" for n in range(6))}


@pytest.mark.requirement("index:search:no-syntax")
@pytest.mark.parametrize(
    "question", ["AND walrus", "walrus OR", "NOT walrus", '"walrus', "walrus*", "(walrus", "-walrus"]
)
def test_operators_of_other_engines_are_words_beside_the_others(backend: Index, question: str) -> None:
    put(backend, *FILLER, doc("a", "the walrus"))
    assert ask(backend, question)[:1] == ["a"]


EXACT = [
    "ADR-016",
    "foo-bar",
    "C++",
    "C#",
    "GB/s",
    "user's",
    "title:x",
    "a.b.c",
    "foo_bar",
    "F#",
    ".NET",
    "x=y",
    "@home",
]


@pytest.mark.requirement("index:rank:exact-term-first")
@pytest.mark.parametrize("term", EXACT)
@pytest.mark.parametrize("form", ["{}", "uses {}.", "({}), indeed", "“{}”"])
def test_the_entry_that_holds_the_exact_term_ranks_first(backend: Index, term: str, form: str) -> None:
    parts = " ".join(part for part in "".join(c if c.isalnum() else " " for c in term).split())
    put(
        backend,
        *FILLER,
        doc("a1", parts, title=parts, summary=parts),
        doc("a2", f"{parts} {parts}", title=parts),
        doc("z", form.format(term) + " among many words " * 20),
        doc("b1", parts, title=parts, summary=parts),
    )
    assert ask(backend, term)[0] == "z"


@pytest.mark.requirement("index:rank:exact-term-first")
def test_terms_that_differ_in_their_symbols_alone_are_told_apart(backend: Index) -> None:
    put(backend, *FILLER, doc("a", "written in C"), doc("b", "written in C#"), doc("c", "written in C++"))
    assert ask(backend, "C++")[0] == "c"
    assert ask(backend, "C#")[0] == "b"
    assert ask(backend, "c#")[0] == "b"


@pytest.mark.requirement("index:search:parts-of-a-term")
def test_the_parts_of_a_term_with_symbols_are_words(backend: Index) -> None:
    put(backend, *FILLER, doc("a", "see walrus-carpenter and lib/oyster.py"))
    assert ask(backend, "walrus") == ["a"]
    assert ask(backend, "carpenter") == ["a"]
    assert ask(backend, "oyster") == ["a"]


@pytest.mark.requirement("index:search:hyphen")
def test_a_hyphenated_word_finds_its_parts_side_by_side_and_apart(backend: Index) -> None:
    put(
        backend,
        *FILLER,
        doc("apart", "walrus sits here and over there sits the carpenter"),
        doc("beside", "here sits the walrus carpenter and over there nobody"),
    )
    assert sorted(ask(backend, "walrus-carpenter")) == ["apart", "beside"]


@pytest.mark.requirement("index:search:no-word")
@pytest.mark.parametrize("question", ["", " ", "*", "\\", '"', "!?", "👍", "\x00", "\ud800", "---"])
def test_text_with_no_word_in_it_finds_nothing(backend: Index, question: str) -> None:
    put(backend, *FILLER, doc("a", f"walrus {question}"))
    assert ask(backend, question) == []


@pytest.mark.requirement("index:search:common-words")
def test_a_question_of_common_words_alone_is_still_asked(backend: Index) -> None:
    put(backend, *[doc(f"n{n}", "walrus") for n in range(4)], doc("a", "to be or not to be"))
    assert ask(backend, "to be or not to be") == ["a"]
    assert {"n0", "n1", "n2", "n3"} <= set(ask(backend, "the walrus is not to be"))


CJK = [
    ("zh", "用户喜欢深色模式", ["用户", "喜欢", "深色", "模式", "色模", "用户喜欢深色模式", "式", "用"]),
    ("th", "ผู้ใช้ชอบโหมดมืด", ["ชอบ", "โห", "มืด", "ผู้", "มด"]),
    ("ja", "ユーザーは暗いテーマを好む", ["暗い", "テー", "好む", "ユー", "を好"]),
    ("ko", "사용자는 어두운 테마를 좋아한다", ["어두", "테마", "사용자", "좋아"]),
    ("lo", "ຜູ້ໃຊ້ມັກໂໝດມືດ", ["ມັກ", "ມື"]),
    ("km", "អ្នកប្រើចូលចិត្ត", ["ចូល", "ចិ"]),
    ("my", "အသုံးပြုသူနှစ်သက်", ["သုံး", "သူ"]),
]


@pytest.mark.requirement("index:search:scripts-without-spaces")
@pytest.mark.parametrize(("id", "question"), [(id, piece) for id, _, pieces in CJK for piece in pieces])
def test_a_piece_of_a_text_without_spaces_is_found(backend: Index, id: str, question: str) -> None:
    put(backend, *FILLER, *[doc(other, text) for other, text, _ in CJK], doc("near", "户喜 欢色 深模"))
    assert ask(backend, question)[0] == id


@pytest.mark.requirement("index:search:scripts-without-spaces")
def test_a_piece_that_stands_there_outranks_its_characters_apart(backend: Index) -> None:
    put(backend, *FILLER, doc("apart", "模型和公式 深的颜色 模型和公式"), doc("whole", "用户喜欢深色模式"))
    assert ask(backend, "深色模式")[0] == "whole"


@pytest.mark.requirement("index:search:scripts-without-spaces")
def test_words_of_two_scripts_in_one_run_are_both_found(backend: Index) -> None:
    put(backend, *FILLER, doc("a", "使用C++编程和Walrus工具"))
    for question in ("C++", "编程", "walrus", "walrus工具", "使用c++编程"):
        assert ask(backend, question)[:1] == ["a"], question


@pytest.mark.requirement("index:search:emoji")
@pytest.mark.parametrize("emoji", ["👍", "🤣", "👩\u200d👩\u200d👧", "☀️", "\U0001fae0", "\U00040000", "→", "™"])
def test_a_word_beside_an_emoji_is_found(backend: Index, emoji: str) -> None:
    put(backend, *FILLER, doc("a", f"{emoji}walrus{emoji}"))
    assert ask(backend, "walrus") == ["a"]
    assert ask(backend, f"walrus{emoji}") == ["a"]


@pytest.mark.requirement("index:search:marks")
def test_a_word_with_marks_is_one_word(backend: Index) -> None:
    put(backend, *FILLER, doc("a", "हिन्दी भाषा"), doc("b", "हन्द"))
    assert ask(backend, "हिन्दी") == ["a"]


@pytest.mark.requirement("index:search:broken-text")
def test_text_that_cannot_be_utf8_is_kept_and_answered_as_replacement_characters(backend: Index) -> None:
    put(backend, doc("a", "walrus\x00 \ud83d broken", title="an \udfff end", summary="zero\x00", tags=("x\ud800",)))
    hit = backend.search(Query(text="walrus", readable=EVERYTHING))[0]
    assert hit.title == "an \ufffd end"
    assert hit.tags == ("x\ufffd",)
    f"{hit}".encode()
    assert ask(backend, "broken") == ["a"]
    assert ask(backend, "walrus", only={"tags": ("x\ud800",)}) == ["a"]


@pytest.mark.requirement("index:search:long-text")
def test_a_word_in_the_last_line_of_a_long_body_is_found(backend: Index) -> None:
    body = "\n".join(f"line {number} of a long text" for number in range(40_000)) + "\nthe walrus"
    put(backend, *FILLER, doc("a", body))
    assert ask(backend, "walrus") == ["a"]
