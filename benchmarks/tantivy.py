"""I3, I4 and I5 for the index in Tantivy: beside bare tantivy-py, bare FTS5 and the embedded index, in the same run.

CPU of the process, its threads included, taken in turns, medians of the rounds. Bare tantivy-py has one
text field that is stemmed and stores what an answer shows; no filters, no versions, nothing that waits.
Writes are summed up instead, so that every so many of them pay for the commit that takes them in.
``python -m benchmarks.tantivy`` prints it; from a scale of 10 on, with FTS5 and the peak of memory.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sqlite3
import sys
import tempfile
from collections.abc import Iterable
from typing import Any

import tantivy

from amem_core.domain.entries import Document
from amem_core.domain.queries import Query
from amem_index.config import SqliteSettings, TantivySettings
from amem_index.sqlite import SqliteIndex
from amem_index.sqlite import open_index as open_embedded
from amem_index.tantivy.index import TantivyIndex, open_index
from benchmarks.harness import Row
from benchmarks.index import (
    _PLENTY,
    _READABLE,
    ENTRIES,
    LARGE,
    TOKENIZER,
    _bare,
    _cpu,
    _documents,
    _fill,
    _interleaved,
    _questions,
)

_ASKED = 20
_WRITES = 50
# Three times as many as wait before they are taken in.
_TURNS = 16
_MEMORY = 64 << 20


class Bare:
    """tantivy-py as its manual shows it."""

    def __init__(self, path: str) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("id", stored=True, tokenizer_name="raw")
        builder.add_text_field("title", stored=True)
        builder.add_text_field("summary", stored=True)
        builder.add_text_field("text", tokenizer_name="en_stem")
        os.makedirs(path)
        self._index = tantivy.Index(builder.build(), path)

    def fill(self, documents: Iterable[Document]) -> None:
        """Add documents and commit."""
        writer = self._index.writer(_MEMORY, 1)
        for document in documents:
            entry = document.entry
            text = f"{entry.title}\n{entry.summary}\n{entry.body}"
            writer.add_document(tantivy.Document(id=entry.id, title=entry.title, summary=entry.summary, text=text))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()

    def ask(self, question: str, *, every: bool, limit: int = 10) -> list[tuple[Any, ...]]:
        """Return the id, the title and the summary of the best entries."""
        query = self._index.parse_query(question, ["text"], conjunction_by_default=every)
        searcher = self._index.searcher()
        found = [searcher.doc(address) for _, address in searcher.search(query, limit, count=False).hits]
        return [
            (document.get_first("id"), document.get_first("title"), document.get_first("summary")) for document in found
        ]


def rows(scale: float = 1.0) -> list[Row]:
    """Return the rows; ``scale`` multiplies the entries."""
    count = max(200, int(ENTRIES * scale))
    with tempfile.TemporaryDirectory() as scratch:
        index, bare, rebuilt = _filled(scratch, count)
        found = [*_search(index, bare, count), rebuilt]
        if count >= LARGE:
            found += [_beside_fts5(index, bare, scratch, count), _peak(scratch, count)]
        embedded = open_embedded(os.path.join(scratch, "embedded"), SqliteSettings())
        embedded.rebuild("main", _documents(0, count), through=count)
        found.append(_write(index, embedded, count))
        index.close()
        embedded.close()
    return found


def _filled(scratch: str, count: int) -> tuple[TantivyIndex, Bare, Row]:
    index = open_index(os.path.join(scratch, "ours"), TantivySettings(memory_mib=_MEMORY >> 20))
    bare = Bare(os.path.join(scratch, "bare"))
    documents = list(_documents(0, count))
    least = _cpu(lambda: bare.fill(documents))
    ours = _cpu(lambda: index.rebuild("main", documents, through=count))
    goal = "rebuild: at least 0.5 of bare tantivy-py's entries per CPU second"
    return index, bare, Row("I5 tantivy", goal, count / ours, count / least, "entries per CPU second", "higher")


def _search(index: TantivyIndex, bare: Bare, count: int) -> list[Row]:
    questions = _questions()
    together = [question for question in questions if len(bare.ask(question, every=True, limit=_PLENTY)) == _PLENTY]
    return [
        _compared(index, bare, together[:_ASKED], every=True, what=f"three words held together, {count} entries"),
        _compared(index, bare, together[:_ASKED], every=False, what=f"three words held together, {count} entries"),
        _compared(index, bare, questions[:_ASKED], every=False, what=f"any three words, {count} entries"),
    ]


def _compared(index: TantivyIndex, bare: Bare, questions: list[str], *, every: bool, what: str) -> Row:
    ours, least = _interleaved(
        lambda: [index.search(Query(text=question, readable=_READABLE)) for question in questions],
        lambda: [bare.ask(question, every=every) for question in questions],
    )
    goal = f"search, {what}, filtered: at most 2 times bare tantivy-py with {'AND' if every else 'OR'}"
    each = 1e3 / max(1, len(questions))
    return Row("I3", goal, each * ours, each * least, "ms CPU", "lower")


def _beside_fts5(index: TantivyIndex, bare: Bare, scratch: str, count: int) -> Row:
    raw = sqlite3.connect(os.path.join(scratch, "raw.sqlite"), isolation_level=None)
    raw.execute(f'CREATE VIRTUAL TABLE words USING fts5(id UNINDEXED, title, summary, body, tokenize="{TOKENIZER}")')
    _fill(raw, list(_documents(0, count)))
    questions = [q for q in _questions() if len(bare.ask(q, every=True, limit=_PLENTY)) == _PLENTY][:_ASKED]
    ours, least = _interleaved(
        lambda: [index.search(Query(text=question, readable=_READABLE)) for question in questions],
        lambda: [_bare(raw, question, " OR ") for question in questions],
    )
    raw.close()
    each = 1e3 / max(1, len(questions))
    goal = f"search, three words held together, {count} entries: at most 0.067 of bare FTS5 with OR"
    return Row("I3 FTS5", goal, each * ours, each * least, "ms CPU", "lower")


def _write(index: TantivyIndex, embedded: SqliteIndex, count: int) -> Row:
    fresh = _documents(count, 10**9)
    number = iter(range(count + 1, 10**9))

    def turn(into: SqliteIndex) -> float:
        documents = [next(fresh) for _ in range(_WRITES)]
        return _cpu(lambda: [into.apply("main", [document], through=next(number)) for document in documents])

    spent = [(turn(index), turn(embedded)) for _ in range(_TURNS + 1)][1:]
    ours, least = (1e3 * sum(column) / (_TURNS * _WRITES) for column in zip(*spent, strict=True))
    goal = "an entry written and visible: at most 2 times the embedded index"
    return Row("I4 tantivy", goal, ours, least, "ms CPU", "lower")


def _peak(scratch: str, count: int) -> Row:
    context = multiprocessing.get_context("spawn")
    peaks = []
    for name in ("ours", "bare"):
        with context.Pool(1) as pool:
            peaks.append(pool.apply(_peak_of, (name, os.path.join(scratch, f"peak-{name}"), count)))
    goal = f"rebuild of {count} entries: at most twice the memory of bare tantivy-py"
    return Row("I5 memory", goal, peaks[0], peaks[1], "MiB", "lower")


def _peak_of(name: str, path: str, count: int) -> float:
    if name == "ours":
        index = open_index(path, TantivySettings(memory_mib=_MEMORY >> 20))
        index.rebuild("main", _documents(0, count), through=count)
    else:
        Bare(path).fill(_documents(0, count))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    for row in rows(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0):
        print(f"{row.id}: {row.ours:.3f} / {row.raw:.3f} {row.unit} = {row.ours / row.raw:.3f}  ({row.goal})")
