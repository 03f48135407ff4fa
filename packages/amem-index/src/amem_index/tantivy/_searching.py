"""From a question to its candidates: Tantivy finds them, the catalog filters them, and their words are weighed here.

Tantivy's own ranks decide who is looked at, ours decide the order. They cannot be one, because Tantivy's
depend on what was written when: it counts what was removed until a merge, knows nothing of what waits,
and each directory counts for itself. Ours follow from what is there, so that the same entries answer in
the same order with the same scores however they came, one by one or by a rebuild, and over several
domains at once. The text counts by BM25; a word of the title counts a quarter again, one of the summary
a twentieth, which is enough to tell entries apart that are equal otherwise.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from amem_index._neighbours import DEPTH
from amem_index._rows import HIT_COLUMNS
from amem_index.sqlite import HIT, tables_of
from amem_index.tantivy._conditions import narrowing, words_query
from amem_index.tantivy._engine import POOLS
from amem_index.tantivy._text import Text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from amem_core.domain.queries import Query
    from amem_index._filters import Filter
    from amem_index.sqlite import Row
    from amem_index.tantivy._text import Question, Tier
    from amem_index.tantivy._views import Looked

# BM25's usual constants.
_SATURATION = 1.2
_LENGTH = 0.75
_TITLE = 0.25
_SUMMARY = 0.05
# What is looked at beyond what is asked for, since Tantivy's ranks are near to ours and not the same.
_MORE = 8
_GROWTH = 4
_FEW = 5000
_CANDIDATES = (
    f"SELECT d.row, t.tokens, t.title, t.summary, t.text, d.words, d.valid_from, {HIT_COLUMNS}"  # noqa: S608  (a constant)
    " FROM json_each(?) e CROSS JOIN doc d ON d.row = e.value CROSS JOIN text t ON t.row = d.row WHERE "
)


class Search:
    """One search on one transaction."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        looked: Sequence[Looked],
        query: Query,
        question: Question,
        *,
        where: Filter,
    ) -> None:
        self._connection = connection
        self._query = query
        self._question = question
        self._limit = query.limit
        self._statement = _CANDIDATES + where.sql
        self._meets = f"SELECT d.row FROM doc d WHERE {where.sql} LIMIT ?"  # noqa: S608  (bound)
        self._values = where.values
        self._places = [(each, POOLS.index(pool)) for each in looked for pool in tables_of(query)]
        self._seen: set[int] = set()
        self._weights, self._average = self._weigh()
        self._few = self._rows()

    def candidates(self) -> list[list[Row]]:
        """Return the best rows for each demand that none before it was met by, as ``sqlite.in_order`` takes them."""
        tiers: list[list[Row]] = []
        for tier in self._question.tiers:
            loose = len(tiers) + 1 == len(self._question.tiers) > 1
            wanted = max(self._limit, DEPTH) if loose else self._limit
            found = self._meeting(tier, wanted - len(self._seen))
            tiers.append(found)
            self._seen.update(row[0] for row in found)
            if len(self._seen) >= self._limit:
                break
        return tiers

    def _weigh(self) -> tuple[list[tuple[str, float]], float]:
        """Return what each term's occurrences count, and how many words an entry has on average."""
        entries = tokens = 0
        for (part, _), pool in self._places:
            entries += part.live if pool else part.rest
            tokens += part.live_tokens if pool else part.rest_tokens
        known: dict[str, float] = {}
        weights: list[tuple[str, float]] = []
        for term in self._question.terms:
            if term.begins:
                weights.append((term.needle, 1.0))
                continue
            rarity = [known.get(word) or self._rarity(word, entries) for word in term.words]
            known.update(zip(term.words, rarity, strict=True))
            weights.append((term.needle, max(rarity)))
        return weights, max(1.0, tokens / entries if entries else 1.0)

    def _rarity(self, word: str, entries: int) -> float:
        holding = sum(view.count(pool, word, part.head) for (part, view), pool in self._places)
        holding = min(max(holding, 0), entries)
        return math.log(1 + (entries - holding + 0.5) / (holding + 0.5))

    def _rows(self) -> list[int] | None:
        """Return the rows that meet the filter where Tantivy cannot tell and they are few, else None."""
        only = self._query.conditions
        if only.fingerprint is None and only.source_prefix is None:
            return None
        rows = self._connection.execute(self._meets, (*self._values, _FEW + 1)).fetchall()
        return None if len(rows) > _FEW else [row[0] for row in rows]

    def _meeting(self, tier: Tier, wanted: int) -> list[Row]:
        """Return the ``wanted`` best rows that meet a demand, and those that were looked at besides."""
        found: list[Row] = []
        for looked, pool in self._places:
            found += self._waiting(tier, looked, pool, wanted)
            if looked.view.snapshot is not None:
                found += self._taken_in(tier, looked, pool, wanted)
        return found

    def _taken_in(self, tier: Tier, looked: Looked, pool: int, wanted: int) -> list[Row]:
        """Return the best of what Tantivy has."""
        part, view = looked
        snapshot = view.snapshot
        assert snapshot is not None  # noqa: S101  (the caller has looked)
        schema = snapshot.schema
        narrowed = narrowing(schema, self._query, part.domain, competing=pool == 1, rows=self._few)
        # For any of the words Tantivy is four times as fast where nothing narrows it, and mostly little falls away.
        tries = [[], narrowed] if narrowed and not tier.all else [narrowed]
        most = wanted + wanted // 4 + _MORE
        while True:
            query = words_query(schema, POOLS[pool], tier, tries[0])
            ranked = snapshot.best(query, most)
            rows = [row for row, _ in ranked if row not in self._seen and not view.has(row, part.head)]
            found = self._kept(rows)
            if len(ranked) < most or self._enough(found, dict(ranked), ranked[-1][1], wanted):
                return found
            if len(tries) > 1:
                del tries[0]
            else:
                most *= _GROWTH

    def _waiting(self, tier: Tier, looked: Looked, pool: int, wanted: int) -> list[Row]:
        """Return the best of what Tantivy may not have."""
        part, view = looked
        holding = [view.holding(pool, term, part.head) for term in tier.terms]
        met = {pending.row: pending for each in holding for pending in each if pending.row not in self._seen}
        if tier.all:
            for each in holding:
                rows = {pending.row for pending in each}
                met = {row: pending for row, pending in met.items() if row in rows}
        scored = sorted(
            ((self._score(each.words), row) for row, each in met.items()),
            reverse=True,
        )
        ranks = {row: score for score, row in scored}
        most = wanted + wanted // 4 + _MORE
        while True:
            found = self._kept([row for _, row in scored[:most]])
            if len(scored) <= most or self._enough(found, ranks, scored[most - 1][0], wanted):
                return found
            most *= _GROWTH

    def _enough(self, found: list[Row], ranks: dict[int, float], last: float, wanted: int) -> bool:
        """Return whether the best are among those looked at, the last of which has the rank ``last``.

        Equal entries have equal ranks, so whoever is not to miss the first of them by id looks on while
        the last that counts is equal to the last looked at. Of what is wanted beyond the limit, for the
        second look, half will do.
        """
        counting = min(wanted, self._limit)
        if len(found) < max(counting, wanted // 2):
            return False
        best = sorted(found, key=lambda row: (row[1], row[HIT]))
        return ranks[best[counting - 1][0]] > last

    def _kept(self, rows: list[int]) -> list[Row]:
        """Return those of the rows that the catalog has and that meet the filter, with their scores."""
        if not rows:
            return []
        met = self._connection.execute(self._statement, (json.dumps(rows), *self._values))
        return [(row[0], -self._score(Text._make(row[1:5])), *row[5:]) for row in met]

    def _score(self, words: Text) -> float:
        tokens, title, summary, text = words
        score = 0.0
        norm = _SATURATION * (1 - _LENGTH + _LENGTH * tokens / self._average)
        for needle, weight in self._weights:
            often = text.count(needle)
            if often:
                gain = often / (often + norm)
                if text.find(needle, 0, summary) >= 0:
                    in_title = text.count(needle, 0, title)
                    in_summary = text.count(needle, title, summary)
                    gain += _TITLE * in_title / (in_title + _SATURATION)
                    gain += _SUMMARY * in_summary / (in_summary + _SATURATION)
                score += weight * (1 + _SATURATION) * gain
        return score
