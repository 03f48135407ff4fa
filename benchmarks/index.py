"""I1, I2, I4 and I5: the embedded index beside bare FTS5 on the same text, in the same run.

CPU of the process, taken in turns, medians of the rounds. Bare FTS5 has one table with the same text
and the same tokenizer, no filters and no second table. ``python -m benchmarks.index`` prints it.
"""

from __future__ import annotations

import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from amem_core.domain.entries import Document, Entry
from amem_core.domain.labels import Label, Status
from amem_core.domain.queries import Query, ReadFilter
from amem_index.analysis import TOKENIZER
from amem_index.config import SqliteSettings
from amem_index.sqlite import SqliteIndex, open_index
from benchmarks.harness import Row

ENTRIES = 10_000
LARGE = 100_000
ROUNDS = 7
# So many hold all words that ten are left when the filters have passed.
_PLENTY = 40
_START = datetime(2026, 1, 1, tzinfo=UTC)
_READABLE = ReadFilter({"main": Label.confidential})


def rows(scale: float = 1.0) -> list[Row]:
    """Return the rows of I1, I4 and I5, and from a scale of 10 on that of I2; ``scale`` multiplies the entries."""
    count = max(200, int(ENTRIES * scale))
    with _pair(count) as (index, raw, rebuilt):
        return [*_search(index, raw, count), _write(index, raw, count), rebuilt]


def _search(index: SqliteIndex, raw: sqlite3.Connection, count: int) -> list[Row]:
    """Ask any three words, and three that plenty of entries hold together: then no OR has to fill the answer up."""
    questions = _questions()
    engines = (index, raw)
    full = [question for question in questions if len(_bare(raw, question, " AND ", _PLENTY)) >= _PLENTY][:20]
    found = [
        _compared("I1", engines, questions[:20], " OR ", what=f"any three words, {count} entries, filtered"),
        _compared("I1 full", engines, full, " AND ", what=f"three words held together, {count} entries, filtered"),
    ]
    if count >= LARGE:
        found.append(
            _compared("I2", engines, full, " OR ", what=f"three words held together, {count} entries", most=0.3)
        )
    return found


def _compared(
    id: str,
    engines: tuple[SqliteIndex, sqlite3.Connection],
    questions: list[str],
    join: str,
    *,
    what: str,
    most: float = 2,
) -> Row:
    index, raw = engines
    ours, bare = _interleaved(
        lambda: [index.search(Query(text=question, readable=_READABLE)) for question in questions],
        lambda: [_bare(raw, question, join) for question in questions],
    )
    goal = f"search, {what}: at most {most:g} times the bare query that joins the words by{join.rstrip()}"
    each = 1e3 / max(1, len(questions))
    return Row(id, goal, each * ours, each * bare, "ms CPU", "lower")


def _write(index: SqliteIndex, raw: sqlite3.Connection, count: int) -> Row:
    fresh = _documents(count, 10**9)
    number = iter(range(count + 1, 10**9))

    def ours() -> None:
        for _ in range(50):
            index.apply("main", [next(fresh)], through=next(number))

    def bare() -> None:
        for _ in range(50):
            _insert(raw, next(fresh))

    spent, least = _interleaved(ours, bare)
    goal = "an entry written and visible: at most 3 times the bare insert"
    return Row("I4", goal, 1e3 * spent / 50, 1e3 * least / 50, "ms CPU", "lower")


@contextmanager
def _pair(count: int) -> Iterator[tuple[SqliteIndex, sqlite3.Connection, Row]]:
    """Give both engines, filled with the same entries, and the row of filling them."""
    with tempfile.TemporaryDirectory() as scratch:
        index = open_index(scratch, SqliteSettings())
        raw = sqlite3.connect(os.path.join(scratch, "raw.sqlite"), isolation_level=None)
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("PRAGMA synchronous = NORMAL")
        raw.execute(
            f'CREATE VIRTUAL TABLE words USING fts5(id UNINDEXED, title, summary, body, tokenize="{TOKENIZER}")'
        )
        bare = _cpu(lambda: _fill(raw, list(_documents(0, count))))
        documents = list(_documents(0, count))
        ours = _cpu(lambda: index.rebuild("main", documents, through=count))
        goal = "rebuild: at least 0.4 of bare FTS5's entries per CPU second"
        yield index, raw, Row("I5", goal, count / ours, count / bare, "entries per CPU second", "higher")
        index.close()
        raw.close()


def _fill(raw: sqlite3.Connection, documents: list[Document]) -> None:
    raw.execute("BEGIN")
    for document in documents:
        _insert(raw, document)
    raw.execute("COMMIT")


def _insert(raw: sqlite3.Connection, document: Document) -> None:
    entry = document.entry
    raw.execute("INSERT INTO words VALUES(?, ?, ?, ?)", (entry.id, entry.title, entry.summary, entry.body))


def _bare(raw: sqlite3.Connection, question: str, join: str, limit: int = 10) -> list[tuple[str, str, str]]:
    words = join.join(f'"{word}"' for word in question.split())
    statement = "SELECT id, title, summary FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
    return raw.execute(statement, (words, limit)).fetchall()


def _vocabulary() -> list[str]:
    syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
    endings = [*["", "", "ing", "ed", "s", "ation"] * 3, "-based", "'s"]  # One word in ten has a symbol.
    source = random.Random(7)
    return ["".join(source.choices(syllables, k=source.randint(2, 4))) + source.choice(endings) for _ in range(8000)]


def _documents(first: int, until: int) -> Iterator[Document]:
    """Yield entries of about a hundred words, common ones often, rare ones seldom."""
    words = _vocabulary()
    source = random.Random(first)

    def text(length: int) -> str:
        return " ".join(words[int(len(words) * source.random() ** 3)] for _ in range(length))

    for number in range(first, until):
        at = _START + timedelta(seconds=number)
        entry = Entry(
            id=f"mem-{number:09}",
            version=1,
            type="fact",
            domain="main",
            title=text(6),
            summary=text(15),
            body=text(80),
            author="owner",
            created=at,
            updated=at,
            classification=Label(number % 4),
            status=Status.active if number % 10 else Status.superseded,
        )
        yield Document(entry, "0" * 64, at)


def _questions() -> list[str]:
    """Return questions of three common words without symbols: rare ones are fast in any engine."""
    common = [word for word in _vocabulary()[:250] if word.isalpha()]
    source = random.Random(11)
    return [" ".join(source.sample(common, 3)) for _ in range(200)]


def _interleaved(ours: Callable[[], object], raw: Callable[[], object]) -> tuple[float, float]:
    """Return the median CPU seconds of each over the rounds; the first round warms the caches."""
    spent = [(_cpu(ours), _cpu(raw)) for _ in range(ROUNDS + 1)][1:]
    return statistics.median(first for first, _ in spent), statistics.median(second for _, second in spent)


def _cpu(run: Callable[[], object]) -> float:
    before = time.process_time()
    run()
    return time.process_time() - before


if __name__ == "__main__":
    for row in rows(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0):
        print(f"{row.id}: {row.ours:.3f} / {row.raw:.3f} {row.unit} = {row.ours / row.raw:.2f}  ({row.goal})")
