"""Who and when a question names: an entry by that author, or of that day, is more likely what is asked for."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_AUTHOR_GAIN = 1.5
_DATE_GAIN = 1.3
_MONTHS = (
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
_TICKS = 1_000_000
_DAYS = 31


class Told(NamedTuple):
    """What a candidate says of itself: its row, its author, and when it was true or, where it does not say, written."""

    row: int
    author: str
    moment: int


def gains(question: str, candidates: Iterable[Told]) -> dict[int, float]:
    """Return by how much the score of each candidate grows that the question names; the others are left out.

    An author counts when the question names exactly one of those that wrote the candidates. A month
    counts once, and its day once more.
    """
    told = list(candidates)
    words = set(re.findall(r"\w+", question.lower()))
    named = {author for author in {each.author for each in told} if _name(author) & words}
    months = {number for number, name in enumerate(_MONTHS, 1) if name in words}
    if len(named) != 1 and not months:
        return {}
    days = {int(word) for word in words if word.isdecimal() and len(word) <= 2 and int(word) <= _DAYS}  # noqa: PLR2004
    found = {}
    for row, author, moment in told:
        gain = _AUTHOR_GAIN if named == {author} else 1.0
        if months:
            when = datetime.fromtimestamp(moment / _TICKS, UTC)
            if when.month in months:
                gain *= _DATE_GAIN * (_DATE_GAIN if when.day in days else 1.0)
        if gain > 1:
            found[row] = gain
    return found


def _name(author: str) -> set[str]:
    """Return the words of an author's own name, behind what kind of author it is."""
    return set(re.findall(r"[^\W\d_]{2,}", author.partition(":")[2].lower()))
