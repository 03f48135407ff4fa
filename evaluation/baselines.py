"""What search has to beat: counting words as grep would, plain FTS5, and plain Tantivy where it is installed."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence

from evaluation.data import DataSet, Item

Answers = dict[str, list[str]]
_DEEPEST = 100
# The closed classes of English; the kit's baselines leave out the same kinds of words.
STOPWORDS = frozenset(  # Read as a text; as a list it would be a hundred lines.
    """
    a about after again all also am an and any are as at be been before being both but by can could did do does
    doing down during each few for from further had has have having he her here hers him his how i if in into is
    it its me more most my no nor not of off on once only or other our out over own same she should so some such
    than that the their them then there these they this those through to too under until up us very was we were
    what when where which while who whom why will with would you your yours s t d ll m re ve
    """.split()  # noqa: SIM905
)


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, in order."""
    return re.findall(r"\w+", text.lower())


def asked_words(question: str) -> list[str]:
    """Return the words of a question that carry meaning, each once; all of them when none does."""
    words = list(dict.fromkeys(words_of(question)))
    return [word for word in words if word not in STOPWORDS] or words


def shown(item: Item) -> str:
    """Return an item as the baselines index it."""
    return f"{item.date or ''} {item.speaker or ''}: {item.text}"


def term_count(data: DataSet) -> Answers:
    """Rank by how many of the question's words an entry holds, then by how often."""
    counted = {
        name: [(item.id, Counter(words_of(shown(item)))) for item in items] for name, items in data.corpus.items()
    }
    return _each(data, lambda conversation, words: _by_count(counted[conversation], words))


def _by_count(counted: Sequence[tuple[str, Counter[str]]], words: Sequence[str]) -> list[str]:
    scored = (
        (sum(word in counts for word in words), sum(counts[word] for word in words), id) for id, counts in counted
    )
    ranked = sorted((-held, -often, place, id) for place, (held, often, id) in enumerate(scored) if held)
    return [id for *_, id in ranked[:_DEEPEST]]


def plain_fts5(data: DataSet) -> Answers:
    """Rank by the bm25 of SQLite's FTS5 with its porter stemmer, words joined by OR."""
    tables = {}
    for name, items in data.corpus.items():
        table = sqlite3.connect(":memory:")
        table.execute("CREATE VIRTUAL TABLE item USING fts5(id UNINDEXED, text, tokenize='porter unicode61')")
        table.executemany("INSERT INTO item VALUES (?, ?)", ((item.id, shown(item)) for item in items))
        tables[name] = table

    def ask(conversation: str, words: Sequence[str]) -> list[str]:
        match = " OR ".join(f'"{word}"' for word in words)
        sql = f"SELECT id FROM item WHERE item MATCH ? ORDER BY bm25(item), rowid LIMIT {_DEEPEST}"
        return [id for (id,) in tables[conversation].execute(sql, (match,))]

    return _each(data, ask)


def plain_tantivy(data: DataSet) -> Answers | None:
    """Rank by Tantivy's bm25 with its English stemmer, words joined by OR; None where Tantivy is not installed."""
    try:
        import tantivy  # noqa: PLC0415  (an extra)
    except ImportError:
        return None
    indexes = {}
    for name, items in data.corpus.items():
        schema = tantivy.SchemaBuilder()
        schema.add_text_field("id", stored=True, tokenizer_name="raw")
        schema.add_text_field("text", stored=False, tokenizer_name="en_stem")
        index = tantivy.Index(schema.build())
        writer = index.writer(heap_size=50_000_000, num_threads=1)
        for item in items:
            writer.add_document(tantivy.Document(id=item.id, text=shown(item)))
        writer.commit()
        index.reload()
        indexes[name] = index

    def ask(conversation: str, words: Sequence[str]) -> list[str]:
        index = indexes[conversation]
        searcher = index.searcher()
        found = searcher.search(index.parse_query(" ".join(words), ["text"]), _DEEPEST).hits
        return [searcher.doc(address)["id"][0] for _, address in found]

    return _each(data, ask)


def _each(data: DataSet, ask: Callable[[str, list[str]], list[str]]) -> Answers:
    return {
        question.id: ask(question.conversation, words) if (words := asked_words(question.text)) else []
        for question in data.questions
    }
