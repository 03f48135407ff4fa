"""Text to words, for indexing and for asking alike: what differs between the two is never found.

FTS5's tokenizer (``TOKENIZER``) cuts at what is neither letter, digit nor mark, folds case and accents
and stems English. It knows no words in scripts that are written without spaces, and it drops symbols,
so two things are done here before it sees a text:

- a run of a script without spaces becomes its overlapping pairs of characters and the last character,
  so that any two neighbouring characters are a word, and one character is the beginning of one;
- a term with symbols in it (``C++``, ``foo-bar``, ``ADR-016``, ``user's``) is also kept in a form of
  letters and digits, in a column of its own, so that the entry with exactly that term is known.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import filterfalse, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TOKENIZER = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"

# Beyond this many distinct words a question is cut: a pasted page asks no more than its beginning.
_MOST_WORDS = 128
_LONGEST_EXACT = 80
_REMEMBERED = 4096

# Han, Hiragana, Katakana, Hangul, Thai, Lao, Khmer and Myanmar: letters and marks, no punctuation.
_SPACELESS = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd\u0edc-\u0edf\u1000-\u1049\u1050-\u109f\u1100-\u11ff\u1780-\u17d3\u17d7"
    "\u17dc\u17dd\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3131-\u318e\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uaa60-\uaa7f\uac00-\ud7a3\ud7b0-\ud7ff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
# Joiners, directions, variation selectors, soft hyphens: they shape how a word is drawn, not what it is.
_INVISIBLE = "[\u00ad\u034f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff]"
# Signs that NFKC would turn into letters of the word before them.
_RAISED = {0x2120: " ", 0x2122: " "}
_UNPAIRED = "[\ud800-\udfff]"
_APART = re.compile(r"[()\[\]{}<>\"`,;|]+")
_JOINT = re.compile(r"[-+#./:'_@&=~^*\\%$!?]")
_NOT_PLAIN = re.compile(r"[^\w]|_")
_BEFORE = "'*_!?:=&^%\\"
_AFTER = "'*_!?:=&^\\.-/@~$"
_NOT_OF_A_WORD = re.compile("[\x00-/:-`{-\x7f]+")  # Of ASCII in lower case; other separators are spaces by now.
_ASCII_WORD = re.compile("[a-z0-9]+")

_STOP = frozenset(  # Read as a text; as a list it would be a hundred lines.
    """
    a about all also an and any are as at be because been before being between both but by can could did do does
    during each for from had has have having he her here his how i if in into is it its just may me more most my
    no not of on only or other our out over own same she should so some such than that the their them then there
    these they this those through to too under until up very was we were what when where which while who whom
    why will with would you your
    """.split()  # noqa: SIM905
)


def clean(text: str) -> str:
    """Return ``text`` with every unpaired surrogate replaced by U+FFFD, so that it can be encoded."""
    return text if text.isascii() else _unpaired().sub("\ufffd", text)


def normalised(text: str) -> str:
    """Return ``text`` in the form in which it is compared.

    NFKC, case folded, without what is not seen, and with spaces for what is neither ASCII nor of a word.
    """
    if text.isascii():
        return text.lower()
    import unicodedata  # noqa: PLC0415  (not needed for ASCII, which is most of what is asked)

    text = _invisible().sub("", _unpaired().sub(" ", text).translate(_RAISED))
    text = unicodedata.normalize("NFKC", text).replace("\u2019", "'").replace("\u2010", "-")
    text = text.casefold()
    # FTS5's tables are older than many an emoji, and what they do not know they take for a letter.
    apart = {ord(character): " " for character in set(text) if not _of_a_word(character)}
    return text.translate(apart) if apart else text


def segmented(text: str) -> str:
    """Return normalised ``text`` with the runs of scripts without spaces cut into words."""
    return text if text.isascii() else _run().sub(_cut, text)


def exact_terms(texts: Iterable[str]) -> str:
    """Return the encoded terms with symbols that occur in the normalised ``texts``, each once."""
    found: dict[str, None] = {}
    for text in texts:
        spaced = text if text.isascii() else _run().sub(" ", text)
        for chunk in dict.fromkeys(filterfalse(str.isalnum, spaced.split())):
            exact = _exact_again if len(chunk) <= _LONGEST_EXACT else _exact
            found.update(dict.fromkeys(exact(chunk)))
    return " ".join(found)


def expressions(text: str) -> tuple[str, ...]:
    """Return FTS5 expressions for ``text``, the strictest first; none when it holds no word.

    Entries that match an earlier one come before entries that match only a later one: all words, with
    the terms with symbols exactly so; all words; some of the words. Stop words count only where
    nothing else was asked.
    """
    asked = words(text)
    if not asked:
        return ()
    strictest = " AND ".join(f'"{word.exact}"' if word.exact else word.all for word in asked)
    together = " AND ".join(word.all for word in asked)
    some = " OR ".join(dict.fromkeys(part for word in asked for part in word.any))
    return tuple(dict.fromkeys((strictest, together, some)))


@cache
def _of_a_word(character: str) -> bool:
    """Return whether a character is ASCII or, as ``TOKENIZER`` is told, a letter, a digit or a mark."""
    import unicodedata  # noqa: PLC0415  (as above)

    category = unicodedata.category(character)
    return character.isascii() or category[0] in "LN" or category in {"Mn", "Mc", "Co"}


# Large classes of characters take a millisecond to compile, and ASCII text, which is most, needs none.
@cache
def _run() -> re.Pattern[str]:
    return re.compile(f"[{_SPACELESS}]+")


@cache
def _invisible() -> re.Pattern[str]:
    return re.compile(_INVISIBLE)


@cache
def _unpaired() -> re.Pattern[str]:
    return re.compile(_UNPAIRED)


def _exact(chunk: str) -> tuple[str, ...]:
    """Return the encoded terms with symbols that a chunk between spaces holds."""
    found: list[str] = []
    for term in _terms(chunk):
        if _JOINT.search(term):
            parts = [part for part in term.split("/") if _JOINT.search(part)] if "/" in term else []
            found += [encoded for encoded in map(_encoded, (term, *parts)) if encoded]
    return tuple(found)


# Most of what symbols join comes again and again; what is long does not, and is not worth its memory.
_exact_again = lru_cache(_REMEMBERED)(_exact)


class Word:
    """One word of a question: how all of it, any of it, and exactly it is asked for.

    ``all`` and ``any`` are FTS5 expressions. Another engine takes ``parts``, words of the text that all
    have to be there: side by side where it is a piece of a script without spaces (``joined``), and as
    the beginning of one where it is one character of such a script (``begins``).
    """

    __slots__ = ("all", "any", "begins", "exact", "joined", "parts", "stop")

    def __init__(
        self,
        all: str,  # noqa: A002
        any: list[str],  # noqa: A002
        parts: list[str],
        exact: str = "",
        *,
        stop: bool = False,
        joined: bool = False,
        begins: bool = False,
    ) -> None:
        self.all = all
        self.any = any
        self.parts = parts
        self.exact = exact
        self.stop = stop
        self.joined = joined
        self.begins = begins


def words(text: str) -> list[Word]:
    """Return the words of a question, each once; the stop words only where there are no others."""
    found: dict[str, Word] = {}
    for word in _words(normalised(text)):
        found.setdefault(word.all, word)
        if len(found) == _MOST_WORDS:
            break
    telling = [word for word in found.values() if not word.stop]
    return telling or list(found.values())


def _words(text: str) -> Iterator[Word]:
    if text.isascii():
        yield from _spaced(text)
        return
    end = 0
    for run in _run().finditer(text):
        yield from _spaced(text[end : run.start()])
        yield _spaceless(run[0])
        end = run.end()
    yield from _spaced(text[end:])


def _spaced(text: str) -> Iterator[Word]:
    for chunk in text.split():
        if chunk.isalnum():
            yield _plain(chunk)
            continue
        for term in _terms(chunk):
            parts = list(_parts(term))
            if not parts:
                continue
            if _JOINT.search(term):
                yield _joined(term, parts)
            else:
                yield from map(_plain, parts)


def _plain(word: str) -> Word:
    quoted = f'"{word}"'
    return Word(quoted, [quoted], [word], stop=word in _STOP)


def _spaceless(run: str) -> Word:
    if len(run) == 1:
        begins = f'"{run}" *'
        return Word(begins, [begins], [run], begins=True)
    pairs = [run[at : at + 2] for at in range(len(run) - 1)]
    phrase = '"' + " ".join(pairs) + '"'
    return Word(phrase, [phrase, *(f'"{pair}"' for pair in pairs)], pairs, joined=True)


def _joined(term: str, parts: list[str]) -> Word:
    """Ask for a term with symbols: its parts, better side by side, best exactly so."""
    exact = _encoded(term)
    any_of = [f'"{part}"' for part in parts]
    asked = " AND ".join(any_of)
    if len(parts) > 1:
        phrase = '"' + " ".join(parts) + '"'
        any_of.append(phrase)
        asked = f"({asked}) OR {phrase}"
    if exact:
        any_of.append(f'"{exact}"')
        asked = f'{asked} OR "{exact}"'
    return Word(f"({asked})", any_of, parts, exact)


def _cut(run: re.Match[str]) -> str:
    text = run[0]
    if len(text) == 1:
        return f" {text} "
    pairs = " ".join([first + second for first, second in pairwise(text)])
    return f" {pairs} {text[-1]} "


def _terms(chunk: str) -> Iterator[str]:
    """Yield what a chunk between spaces holds, without brackets, quotation marks and a sentence's end."""
    for piece in _APART.split(chunk):
        term = piece.lstrip(_BEFORE).rstrip(_AFTER)
        if term.startswith(".."):
            term = term.lstrip(".")
        if term:
            yield term


def _parts(term: str) -> Iterator[str]:
    """Yield the letters, digits and marks between the symbols, as the tokenizer sees them."""
    if term.isascii():
        yield from _ASCII_WORD.findall(term)
        return
    yield from _NOT_OF_A_WORD.sub(" ", term).split()


def _encoded(term: str) -> str:
    """Return ``term`` as one token, or nothing when it is too long or all symbols.

    The digit at its end keeps the stemmer away from it.
    """
    if len(term) > _LONGEST_EXACT or not any(map(str.isalnum, term)):
        return ""
    return "qz" + _NOT_PLAIN.sub(lambda symbol: f"q{ord(symbol[0]):x}q", term) + "0"
