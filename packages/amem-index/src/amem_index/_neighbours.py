"""What stands beside a hit tells about it: the ranking's second look at its best candidates.

A short entry often answers in words that its neighbours hold: the turn before it in a conversation, the
section above it in a document. So a candidate gains a share of what its neighbours score by
themselves, less the longer it is itself, and keeps its place among those that hold as many of the
words. Nothing is added that holds none of them. How the shares were found, and what else was tried, is
told in ``docs/explanation/retrieval.md``.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

# How many of the best candidates are looked at: more changes nothing that is measured.
DEPTH = 100
# What a candidate gains of the score of what stands one and two places beside it.
_SHARES = (0.5, 0.3)
# An entry of so many words stands for itself and gains nothing.
_LONG = 300
# An entry of a few words matches easily and says little: it loses up to half, fading with its words.
_TINY_LOSS = 0.5
_TINY_WORDS = 8

# The two before and the two behind, by when they were written, among what competes.
_BESIDE = (
    "SELECT d.row FROM doc d WHERE d.shard = c.shard AND d.strand = c.strand AND d.competes = 1 AND (d.created, d.id)"
)
_BEFORE = f"({_BESIDE} < (c.created, c.id) ORDER BY d.created DESC, d.id DESC LIMIT 1"
_BEHIND = f"({_BESIDE} > (c.created, c.id) ORDER BY d.created, d.id LIMIT 1"
_NEIGHBOURS = (
    f"SELECT c.row, {_BEFORE}), {_BEHIND}), {_BEFORE} OFFSET 1), {_BEHIND} OFFSET 1) FROM doc c"  # noqa: S608  (constants)
    " WHERE c.row IN (SELECT value FROM json_each(?)) AND c.strand IS NOT NULL"
)


class Candidate(NamedTuple):
    """A row that matched: its score by words alone, and how many words it has itself."""

    row: int
    score: float
    words: int


def neighbours(connection: sqlite3.Connection, candidates: Iterable[Candidate]) -> dict[int, tuple[int | None, ...]]:
    """Return, for each short candidate of some strand, the rows beside it: before, behind, and one further each way."""
    short = [candidate.row for candidate in candidates if candidate.words < _LONG]
    return {row[0]: row[1:] for row in connection.execute(_NEIGHBOURS, (json.dumps(short),))}


def spread(candidates: Iterable[Candidate], beside: Mapping[int, tuple[int | None, ...]]) -> dict[int, float]:
    """Return the candidates' scores with what their neighbours lend them."""
    own = {candidate.row: candidate.score for candidate in candidates}
    scores = {}
    for row, score, words in candidates:
        lent = 0.0
        for place, other in enumerate(beside.get(row, ())):
            if other is not None:
                lent += _SHARES[place // 2] * own.get(other, 0.0)
        scores[row] = (score + lent * max(0.0, 1 - words / _LONG)) * (1 - _TINY_LOSS * math.exp(-words / _TINY_WORDS))
    return scores
