"""The evaluation kit's data: what there is to find, what is asked, and what answers it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SETS = ("locomo", "beam", "docs", "cranfield")
"""The data sets, by the folders that hold them."""


@dataclass(frozen=True)
class Item:
    """One entry of a corpus; those of one conversation stand in order, and a session of None has no order."""

    id: str
    conversation: str
    session: int | None
    date: str | None
    speaker: str | None
    text: str

    @property
    def cost(self) -> int:
        """The tokens that it takes in a pack, as the kit counts them: a quarter of its characters, rounded up."""
        return -(-len(f"{self.date or ''} {self.speaker or ''}: {self.text}") // 4)


@dataclass(frozen=True)
class Question:
    """One question of a conversation and the ids of the entries that answer it."""

    id: str
    conversation: str
    category: str
    text: str
    evidence: frozenset[str]


@dataclass(frozen=True)
class DataSet:
    """One data set: its corpus by conversation, in order, and the questions that count."""

    name: str
    corpus: dict[str, list[Item]]
    questions: list[Question]

    def sample(self, size: int) -> DataSet:
        """Return the set with at most ``size`` questions, spread evenly over them."""
        step = max(1, len(self.questions) // size)
        questions = self.questions[::step][:size]
        asked = {question.conversation for question in questions}
        return DataSet(self.name, {name: self.corpus[name] for name in self.corpus if name in asked}, questions)


def load(folder: Path, name: str) -> DataSet:
    """Read one data set of the kit in ``folder``.

    A question without evidence, and one that is marked as having no answer, does not count.

    Raises:
        FileNotFoundError: the folder does not hold the set.
    """
    corpus: dict[str, list[Item]] = {}
    for row in _rows(folder / name / "corpus.jsonl"):
        item = Item(row["id"], row["conversation"], row["session"], row["date"], row["speaker"], row["text"])
        corpus.setdefault(item.conversation, []).append(item)
    questions = [
        Question(row["id"], row["conversation"], str(row["category"]), row["question"], frozenset(row["evidence"]))
        for row in _rows(folder / name / "queries.jsonl")
        if row["evidence"] and not row.get("adversarial")
    ]
    return DataSet(name, corpus, questions)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)
