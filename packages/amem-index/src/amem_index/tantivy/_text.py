"""An entry's words as they are indexed, and a question's as they are asked: stemmed once, for every reader alike.

The words of an entry are one text: its fields, title first, each ended by a line feed, in each the words
between two spaces each. So a word is found as ``" word "`` and a phrase as ``" one  other "`` by a plain
search, which counts them right even where they stand side by side.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

from amem_index._rows import words_row
from amem_index.analysis import words

if TYPE_CHECKING:
    from amem_core.domain.entries import Entry

# Longer ones are no words, and the engine drops what is longer than 64 KiB: they are told apart by their beginning.
_LONGEST = 200
_REMEMBERED = 1 << 16
_MEMORABLE = 40
# Everything of ASCII that is no letter and no digit; other separators are spaces by now, see ``analysis.normalised``.
_APART = {code: " " for code in range(128) if not chr(code).isalnum()}
_ACCENTS = range(0x300, 0x370)


class Text(NamedTuple):
    """The words of one entry; ``title`` and ``summary`` say where in ``text`` these end, ``tokens`` how many there are."""

    tokens: int
    title: int
    summary: int
    text: str


class Term(NamedTuple):
    """What is looked for: a word, a phrase of ``words``, or with ``begins`` any word that begins so.

    ``needle`` is it as it stands in a ``Text``.
    """

    words: tuple[str, ...]
    needle: str
    begins: bool = False


class Tier(NamedTuple):
    """What an entry must hold: with ``all`` every one of the terms, else one."""

    all: bool
    terms: tuple[Term, ...]


class Question(NamedTuple):
    """A question: the demands by which it is answered, strictest first, and the terms that count towards a score."""

    tiers: tuple[Tier, ...]
    terms: tuple[Term, ...]


class _Stems(dict[str, str]):
    """Words and their stems, as far as they have come up: looking one up again is a fiftieth of stemming it."""

    def __init__(self) -> None:
        super().__init__()
        self._analyzer = TextAnalyzerBuilder(Tokenizer.raw()).filter(Filter.stemmer("english")).build()

    def __missing__(self, word: str) -> str:
        cut = _unaccented(word)[:_LONGEST]
        stem = (self._analyzer.analyze(cut) or [cut])[0] or cut
        if len(word) <= _MEMORABLE:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[word] = stem
        return stem


_stems = _Stems()


def text_of(entry: Entry) -> Text:
    """Return the words of an entry."""
    title, summary, body, names, exact = words_row(entry)
    fields = [_stemmed(title), _stemmed(summary), _stemmed(names), exact.split(), _stemmed(body)]
    tokens = sum(map(len, fields))
    lines = [f" {'  '.join(field)} \n" for field in fields]
    return Text(tokens, len(lines[0]), len(lines[0]) + len(lines[1]), "".join(lines))


def question_of(text: str) -> Question | None:
    """Return what ``text`` asks for, None when it holds no word.

    Entries that meet an earlier demand come before those that meet only a later one: all words, with the
    terms with symbols exactly so; all words; some of the words.
    """
    strict: dict[Term, None] = {}
    every: dict[Term, None] = {}
    some: dict[Term, None] = {}
    for word in words(text):
        parts = tuple(map(_stems.__getitem__, word.parts))
        singles = [_term(part, begins=word.begins) for part in parts]
        phrase = [_term(*parts)] if len(parts) > 1 else []
        exact = [_term(word.exact)] if word.exact else []
        needed = phrase if word.joined and phrase else singles
        strict.update(dict.fromkeys(exact or needed))
        every.update(dict.fromkeys(needed))
        some.update(dict.fromkeys([*singles, *phrase, *exact]))
    if not some:
        return None
    tiers = (
        Tier(all=True, terms=tuple(strict)),
        Tier(all=True, terms=tuple(every)),
        Tier(all=False, terms=tuple(some)),
    )
    return Question(tuple(dict.fromkeys(tiers)), tuple(some))


def _term(*words: str, begins: bool = False) -> Term:
    return Term(words, f" {words[0]}" if begins else f" {'  '.join(words)} ", begins)


def _stemmed(text: str) -> list[str]:
    return list(map(_stems.__getitem__, text.translate(_APART).split()))


def _unaccented(word: str) -> str:
    if word.isascii():
        return word
    apart = unicodedata.normalize("NFD", word)
    return unicodedata.normalize("NFC", "".join(mark for mark in apart if ord(mark) not in _ACCENTS)) or word
