"""What tells that a file holds the text of an entry: which of its texts say so by themselves, and how they are found.

A text that is long enough is evidence wherever it stands. A shorter one, such as one common word, may
be anybody's: it counts only where the entry's id stands as well.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING

from amem_core.domain.labels import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from amem_core.domain.entries import Entry

# In bytes of UTF-8, from which on a whole body or summary tells whose it is; a title, or a line out of a body, is
# more often somebody else's as well.
_TELLING = 24
_TELLING_PART = 40
# So many letters and digits make it a text: a rule, or the edge of a table, is in everybody's.
_LETTERS = 12
# In characters, from which on a text says something beside the id.
_SHORTEST = 8
# In characters: what holds a longer text holds its beginning, which is enough to look for.
_LOOKED_FOR = 4096
# Of a text with more lines than this, every so many-th is looked for: they take room, and a part of it holds some.
_MOST_LINES = 10_000
# A text that a program wrote into JSON, and that into JSON again, as a tape does with a tool's answer.
_WRAPPED = 3
_CHUNK = 1 << 20
# Up to so many texts are looked for one by one.
_FEW = 32
# A word of ASCII, or one other character: two readers that begin at different places see the same ones.
_WORD = re.compile(rb"\w{3,}|[\xc0-\xff][\x80-\xbf]+")


class Evidence:
    """What is looked for: the texts of every version of one entry, and its id."""

    def __init__(self, id: str, entries: Iterable[Entry], *, with_title: bool) -> None:
        telling: set[str] = set()
        lines: set[str] = set()
        short: set[str] = set()
        for entry in entries:
            if entry.status is Status.erased:
                continue
            whole = [entry.summary, entry.body.strip()[:_LOOKED_FOR]]
            telling.update(text for text in whole if _tells(text, _TELLING))
            lines.update(line for line in _lines(entry.body) if _tells(line, _TELLING_PART))
            if with_title:
                whole.append(entry.title)
                telling.update([entry.title] if _tells(entry.title, _TELLING_PART) else [])
            short.update(text for text in whole if len(text) >= _SHORTEST)
        sampled = sorted(lines)[:: len(lines) // _MOST_LINES + 1]
        # Not where it is the beginning of a longer id; an id is the same in any case.
        self._id = re.compile(re.escape(id.encode()) + rb"(?![0-9a-z-])", re.IGNORECASE)
        self._telling = _Finder([*_all(_forms, telling.union(sampled)), *_all(_in_utf_16, telling)])
        self._short = _Finder([*_all(_forms, short - telling), *_all(_in_utf_16, short - telling)])

    def names_it(self, data: bytes) -> bool:
        """Return whether the id stands in ``data``."""
        return self._id.search(data) is not None

    def tells(self, data: bytes) -> bool:
        """Return whether ``data`` holds a text that tells by itself whose it is."""
        return self._telling.within(data)

    def within(self, data: bytes) -> bool:
        """Return whether ``data`` holds one of the texts: one that tells by itself, or a short one beside the id."""
        return self.tells(data) or (self.names_it(data) and self._short.within(data))

    def in_file(self, path: str) -> bool:
        """Return whether a file holds one of the texts, read a part at a time; the id may be in its path."""
        overlap = max(self._telling.longest, self._short.longest, len(self._id.pattern))
        named = self.names_it(path.encode("utf-8", "surrogateescape"))
        short = False
        with open(path, "rb") as file:
            before = b""
            while part := file.read(_CHUNK):
                window = before + part
                if self._telling.within(window):
                    return True
                named = named or self.names_it(window)
                short = short or self._short.within(window)
                if named and short:
                    return True
                before = window[-overlap:]
        return False


class _Finder:
    """Looks for many texts at once, so that a body of thousands of lines is not looked for a line at a time."""

    def __init__(self, wanted: Iterable[bytes]) -> None:
        texts = sorted(set(wanted), key=lambda text: (len(text), text))
        self.longest = max(map(len, texts), default=1)
        self._one_by_one = texts
        self._by_word: dict[bytes, list[tuple[frozenset[bytes], bytes]]] = {}
        if len(texts) > _FEW:
            self._group()

    def within(self, data: bytes) -> bool:
        """Return whether one of the texts stands in ``data``."""
        if any(text in data for text in self._one_by_one):
            return True
        if not self._by_word:
            return False
        there = set(_WORD.findall(data))
        return any(
            words <= there and text in data
            for word in self._by_word.keys() & there
            for words, text in self._by_word[word]
        )

    def _group(self) -> None:
        """Put each text under the word of it that the fewest others have: only where that stands is it looked for."""
        # The first and the last word of a text may go on outside of it.
        inner = [frozenset(_WORD.findall(text)[1:-1]) for text in self._one_by_one]
        shared = Counter(word for words in inner for word in words)
        rest: list[bytes] = []
        for words, text in zip(inner, self._one_by_one, strict=True):
            if words:
                rarest = min(words, key=lambda word: (shared[word], -len(word), word))
                self._by_word.setdefault(rarest, []).append((words, text))
            else:
                rest.append(text)
        self._one_by_one = rest


def _lines(body: str) -> Iterator[str]:
    """Yield the lines of a body that are text; a heading is as often the form that many texts have."""
    for line in body.splitlines():
        stripped = line.strip()
        if not stripped.startswith("#"):
            yield stripped


def _tells(text: str, least: int) -> bool:
    return len(text.encode("utf-8", "surrogatepass")) >= least and sum(map(str.isalnum, text)) >= _LETTERS


def _all(forms: Callable[[str], Iterable[bytes]], texts: Iterable[str]) -> Iterator[bytes]:
    for text in texts:
        yield from forms(text)


def _forms(text: str) -> Iterator[bytes]:
    """Yield a text as it may stand in a file of UTF-8: as it is, and in JSON within JSON, with and without escapes."""
    yield text.encode("utf-8", "surrogatepass")
    wrapped = [text]
    for _ in range(_WRAPPED):
        wrapped = [json.dumps(form, ensure_ascii=escaped)[1:-1] for form in wrapped for escaped in (True, False)]
        yield from (form.encode("utf-8", "surrogatepass") for form in wrapped)


def _in_utf_16(text: str) -> Iterator[bytes]:
    yield text.encode("utf-16-le", "surrogatepass")
    yield text.encode("utf-16-be", "surrogatepass")
