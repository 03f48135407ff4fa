"""Counts over ids: no model takes part in a score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from evaluation.data import DataSet, Item, Question

BUDGET = 1_500
"""The tokens of a pack."""
MEASURES = ("recall@5", "recall@10", "mrr", "ndcg@10", "pack")
_DEEPEST = 100


def score(data: DataSet, answers: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return the mean of every measure over the questions; ``answers`` are ids, best first, by question."""
    items = {item.id: item for group in data.corpus.values() for item in group}
    rows = [_measures(question, answers.get(question.id, ()), items) for question in data.questions]
    return {name: fmean(row[name] for row in rows) for name in MEASURES}


def _measures(question: Question, ranked: Sequence[str], items: Mapping[str, Item]) -> dict[str, float]:
    gold = question.evidence
    places = [place for place, id in enumerate(ranked) if id in gold]
    gain = sum(1 / math.log2(place + 2) for place in places if place < 10)
    ideal = sum(1 / math.log2(place + 2) for place in range(min(10, len(gold))))
    return {
        "recall@5": sum(place < 5 for place in places) / len(gold),
        "recall@10": sum(place < 10 for place in places) / len(gold),
        "mrr": 1 / (places[0] + 1) if places and places[0] < _DEEPEST else 0.0,
        "ndcg@10": gain / ideal,
        "pack": len(gold & set(packed(ranked, items))) / len(gold),
    }


def packed(ranked: Sequence[str], items: Mapping[str, Item]) -> list[str]:
    """Return what of a ranking fits into the budget, each item that still does being taken in order."""
    left, taken = BUDGET, []
    for id in ranked:
        if items[id].cost <= left:
            left -= items[id].cost
            taken.append(id)
    return taken
