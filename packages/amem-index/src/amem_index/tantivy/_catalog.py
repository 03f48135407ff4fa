"""What a write does to the catalog: a version in, an id out, and each of it in the journal. Inside the caller's transaction."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from amem_core.domain.labels import Status
from amem_core.errors import UnknownFormatError
from amem_index._database import Database
from amem_index._rows import doc_row
from amem_index._writing import INSERT_DOC, VERSIONS, shards, standings
from amem_index.analysis import clean
from amem_index.tantivy import _schema
from amem_index.tantivy._engine import COLUMNS, TAKEN
from amem_index.tantivy._text import Text, text_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from amem_core.domain.entries import Document, Entry

_CHUNK = 500
_ACTIVE = Status.active.value
_INSERT_TEXT = "INSERT INTO text(row, tokens, title, summary, text) VALUES(?, ?, ?, ?, ?)"
_INSERT_JOURNAL = "INSERT INTO journal(shard, number, row, gone, pool, id, text) VALUES(?, ?, ?, ?, ?, ?, ?)"
_THERE = "SELECT id, version FROM doc WHERE shard = ? AND id IN (SELECT value FROM json_each(?))"
_FORGOTTEN = "SELECT id FROM forgotten WHERE shard = ? AND id IN (SELECT value FROM json_each(?))"
# Where ``doc_row`` has a column.
AT = {name: at - 4 for at, name in enumerate(re.findall(r"\w+", INSERT_DOC.partition("(")[2].partition(")")[0]))}
_DOCUMENTS = f"SELECT {COLUMNS} FROM doc d JOIN text t ON t.row = d.row WHERE d.shard = ?"  # noqa: S608  (constants)


class Catalog(Database):
    """The file, which a newer amem may have made: then it is left alone."""

    VERSION = _schema.VERSION
    STATEMENTS = _schema.STATEMENTS

    def _make(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > self.VERSION:
            message = f"the index {self.path} has the form {version}; this amem knows {self.VERSION} and below"
            raise UnknownFormatError(
                message, hint="upgrade amem; or remove the directory that holds it and run `amem reindex`"
            )
        return super()._make(connection)

    @contextmanager
    def durably(self) -> Generator[sqlite3.Connection]:
        """Give a write transaction as ``writing`` does; it and all before it survive a loss of power, for a sync."""
        with self.connection() as connection:
            connection.execute("PRAGMA synchronous = FULL")
        try:
            with self.writing() as connection:
                yield connection
        finally:
            with self.connection() as connection:
                connection.execute("PRAGMA synchronous = NORMAL")


class State(NamedTuple):
    """How far Tantivy has followed a shard's journal, and where."""

    generation: str
    fold: int
    intent: int
    epoch: int
    head: int
    folded: int
    waiting: int


class Changes:
    """What one transaction does to one shard: journal and sums, written by ``save``."""

    def __init__(self, connection: sqlite3.Connection, shard: int) -> None:
        self._connection = connection
        self.shard = shard
        found = connection.execute("SELECT head FROM part WHERE shard = ?", (shard,)).fetchone()
        if found is None:
            connection.execute("INSERT INTO part(shard, generation) VALUES(?, '')", (shard,))
        self._head = 0 if found is None else int(found[0])
        self._characters = 0
        self._rows = [0, 0]
        self._tokens = [0, 0]

    def count(self, pool: int, rows: int, tokens: int) -> None:
        """Count what came to a pool, or with negative numbers went."""
        self._rows[pool] += rows
        self._tokens[pool] += tokens

    def came(self, row: int, pool: int, id: str, characters: int) -> None:
        """Note a row that Tantivy has to take in."""
        self._note((row, 0, pool, id, None), characters)

    def went(self, row: int, pool: int, id: str, text: str | None) -> None:
        """Note a row that Tantivy has to give up; without ``text`` it counts on until then."""
        self._note((row, 1, pool, id, text), len(text or ""))

    def save(self) -> None:
        """Write down the sums."""
        self._connection.execute(
            "UPDATE part SET head = ?, waiting = waiting + ?, rest = rest + ?, live = live + ?,"
            " rest_tokens = rest_tokens + ?, live_tokens = live_tokens + ? WHERE shard = ?",
            (self._head, self._characters, *self._rows, *self._tokens, self.shard),
        )

    def _note(self, what: tuple[object, ...], characters: int) -> None:
        self._head += 1
        self._characters += characters
        self._connection.execute(_INSERT_JOURNAL, (self.shard, self._head, *what))


def put(connection: sqlite3.Connection, changes: Changes, document: Document) -> None:
    """Take in a version, in place of the same version if that is there."""
    id = clean(document.entry.id)
    kept = connection.execute(
        "SELECT version, row, competes FROM doc WHERE shard = ? AND id = ?", (changes.shard, id)
    ).fetchall()
    same = [row for row in kept if row[0] == document.entry.version]
    for _, row, pool in same:
        _drop(connection, changes, id, row, pool)
    _came(connection, changes, document)
    if len(kept) > len(same):
        _relink(connection, changes, id)


def stage(
    connection: sqlite3.Connection, changes: Changes, batch: Sequence[Sequence[Document]]
) -> tuple[int, list[tuple[Any, ...]]]:
    """Take versions, in each part those of one id, oldest first, into a shard that is being built.

    What a writer put there meanwhile is later than what the rebuild read, and what was forgotten
    meanwhile stays forgotten.

    Returns:
        How many were not there yet, and what Tantivy is to take of those that are not in the journal.
    """
    listed = json.dumps([clean(versions[0].entry.id) for versions in batch])
    there: dict[str, set[int]] = {}
    for id, version in connection.execute(_THERE, (changes.shard, listed)):
        there.setdefault(id, set()).add(version)
    forgotten = {row[0] for row in connection.execute(_FORGOTTEN, (changes.shard, listed))}
    count = 0
    documents: list[tuple[Any, ...]] = []
    for versions in batch:
        id = clean(versions[0].entry.id)
        if id in forgotten:
            continue
        known = there.setdefault(id, set())
        fresh = {each.entry.version: each for each in reversed(versions) if each.entry.version not in known}
        if known:
            for document in fresh.values():
                _came(connection, changes, document)
            _relink(connection, changes, id)
        else:
            documents += _stage(connection, changes, fresh)
        known.update(fresh)
        count += len(fresh)
    return count, documents


def forget(connection: sqlite3.Connection, id: str, keep: Document | None) -> list[str]:
    """Remove every version of an id but ``keep``, and hold a rebuild that is under way from bringing one back.

    The directories that may hold its bytes are dirty from then on. Returns the domains that had it; none
    when all that there is of it is ``keep``, so that asking again needs no new directories.
    """
    id = clean(id)
    connection.execute("INSERT OR IGNORE INTO forgotten(shard, id) SELECT number, ? FROM shard WHERE state = 0", (id,))
    if keep is not None and _all_there_is(connection, id, keep):
        return []
    found = connection.execute(
        "SELECT d.shard, d.row, d.competes, t.tokens FROM doc d LEFT JOIN text t ON t.row = d.row"
        " WHERE d.shard IN (SELECT number FROM shard) AND d.id = ?",
        (id,),
    ).fetchall()
    mentioned = connection.execute("SELECT DISTINCT shard FROM journal WHERE id = ?", (id,)).fetchall()
    # Not its text, and not which rows it had: the shard's views begin anew.
    connection.execute("DELETE FROM journal WHERE id = ?", (id,))
    touched = {row[0] for row in (*found, *mentioned)}
    for shard in touched:
        changes = Changes(connection, shard)
        for _, row, pool, tokens in (each for each in found if each[0] == shard):
            connection.execute("DELETE FROM doc WHERE row = ?", (row,))
            connection.execute("DELETE FROM text WHERE row = ?", (row,))
            changes.count(pool, -1, -(tokens or 0))
        changes.save()
        connection.execute("UPDATE part SET epoch = epoch + 1, dirty = generation != '' WHERE shard = ?", (shard,))
    if keep is not None:
        for shard in _shards(connection, keep):
            changes = Changes(connection, shard)
            put(connection, changes, keep)
            changes.save()
    names = connection.execute("SELECT number, domain FROM shard WHERE state = 1").fetchall()
    return [str(domain) for number, domain in names if number in touched]


def sweep(connection: sqlite3.Connection) -> bool:
    """Remove a part of what readers do not see; return whether more may be left."""
    found = connection.execute("SELECT number FROM shard WHERE state = 0 LIMIT 1").fetchone()
    if found is None:
        return False
    rows = connection.execute("SELECT row FROM doc WHERE shard = ? LIMIT ?", (found[0], _CHUNK)).fetchall()
    connection.executemany("DELETE FROM text WHERE row = ?", rows)
    connection.executemany("DELETE FROM doc WHERE row = ?", rows)
    if len(rows) < _CHUNK:
        for table, column in (("shard", "number"), ("forgotten", "shard"), ("part", "shard"), ("journal", "shard")):
            connection.execute(f"DELETE FROM {table} WHERE {column} = ?", found)  # noqa: S608  (constants)
    return True


def state_of(connection: sqlite3.Connection, shard: int) -> State | None:
    """Return the state of a shard's words, None when the shard is gone."""
    found = connection.execute(
        "SELECT generation, fold, intent, epoch, head, folded, waiting FROM part WHERE shard = ?", (shard,)
    ).fetchone()
    return None if found is None else State._make(found)


def documents(connection: sqlite3.Connection, rows: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return what Tantivy takes of rows, in their order; of those that are gone, nothing."""
    statement = f"SELECT {COLUMNS} FROM json_each(?) e CROSS JOIN doc d ON d.row = e.value JOIN text t ON t.row = d.row"  # noqa: S608  (constants)
    return connection.execute(statement, (json.dumps(rows),)).fetchall()


def every_document(connection: sqlite3.Connection, shard: int) -> Iterator[tuple[Any, ...]]:
    """Yield what Tantivy takes of all rows of a shard."""
    yield from connection.execute(_DOCUMENTS, (shard,))


def waiting(connection: sqlite3.Connection, shard: int, head: int) -> tuple[list[int], list[int]]:
    """Return what a fold up to ``head`` has to do: the rows to add, and the rows to remove before."""
    came: dict[int, None] = {}
    went: list[int] = []
    for row, gone in connection.execute(
        "SELECT row, gone FROM journal WHERE shard = ? AND number <= ? ORDER BY number", (shard, head)
    ):
        if not gone:
            came[row] = None
        elif row in came:
            del came[row]
        else:
            went.append(row)
    return list(came), went


def folded(
    connection: sqlite3.Connection, shard: int, was: State, generation: str, fold: int, *, anew: bool = False
) -> bool:
    """Record that Tantivy has what ``was`` knew of the journal, ``anew`` in a directory that holds nothing else.

    Returns whether the shard still was as it was. What was forgotten meanwhile leaves the directory dirty.
    """
    done = connection.execute(
        "UPDATE part SET generation = ?, fold = ?, folded = ?, waiting = max(0, waiting - ?),"
        " dirty = epoch != ? OR (dirty AND ?) WHERE shard = ? AND generation = ? AND fold = ?",
        (generation, fold, was.head, was.waiting, was.epoch, not anew, shard, was.generation, was.fold),
    ).rowcount
    if done:
        connection.execute("DELETE FROM journal WHERE shard = ? AND number <= ?", (shard, was.head))
    return bool(done)


def intend(connection: sqlite3.Connection, shard: int, fold: int) -> None:
    """Record that what the transaction sees is about to be committed as ``fold``."""
    connection.execute("UPDATE part SET intent = ?, taken = head WHERE shard = ?", (fold, shard))


def touch(connection: sqlite3.Connection) -> None:
    """Write something, so that there is something to make durable."""
    connection.execute("UPDATE part SET dirty = dirty")


def begun(connection: sqlite3.Connection, shard: int, generation: str) -> None:
    """Record where a shard is being built."""
    connection.execute("INSERT OR IGNORE INTO part(shard, generation) VALUES(?, '')", (shard,))
    connection.execute("UPDATE part SET generation = ? WHERE shard = ?", (generation, shard))


def built(connection: sqlite3.Connection, shard: int) -> None:
    """Record that Tantivy has what was staged."""
    connection.execute("UPDATE part SET fold = 1 WHERE shard = ?", (shard,))


def generations(connection: sqlite3.Connection) -> set[str]:
    """Return the names of the directories that are some shard's."""
    return {str(row[0]) for row in connection.execute("SELECT generation FROM part")}


def dirty(connection: sqlite3.Connection, *, built: bool) -> list[tuple[int, str]]:
    """Return the shards, with their domains, whose directories hold what was forgotten."""
    statement = "SELECT s.number, s.domain FROM part p JOIN shard s ON s.number = p.shard WHERE p.dirty AND s.state = ?"
    return connection.execute(statement, (int(built),)).fetchall()


def _all_there_is(connection: sqlite3.Connection, id: str, keep: Document) -> bool:
    """Return whether every shard of the document's domain has it, and none has another version of its id."""
    values = doc_row(keep)
    there = connection.execute(
        "SELECT shard, version, card FROM doc WHERE shard IN (SELECT number FROM shard) AND id = ?", (id,)
    ).fetchall()
    wanted = {(shard, values[AT["version"]], values[AT["card"]]) for shard in _shards(connection, keep)}
    return set(there) == wanted


def _shards(connection: sqlite3.Connection, document: Document) -> tuple[int, ...]:
    """Return the shards that a document belongs to, the current one first."""
    current, building = shards(connection, document.entry.domain)
    return (current, *building)


def _stage(
    connection: sqlite3.Connection, changes: Changes, versions: Mapping[int, Document]
) -> Iterator[tuple[Any, ...]]:
    """Add all versions of an id that is not there, as they stand among one another; yield what Tantivy takes."""
    values = [doc_row(versions[number]) for number in sorted(versions, reverse=True)]
    entries = [versions[number].entry for number in sorted(versions, reverse=True)]
    listed = [
        (at, each[AT["known_from"]], each[AT["own"]], each[AT["status"]], None, None, None)
        for at, each in enumerate(values)
    ]
    for at, standing, _ in standings(listed):
        row, text = _insert(connection, changes, entries[at], values[at], standing)
        label, until, live = standing
        known = {"row": row, "shown": label, "known_until": until, "competes": live}
        taken = [known[name] if name in known else values[at][AT[name]] for name in TAKEN]
        yield (*taken, text.text)


def _came(connection: sqlite3.Connection, changes: Changes, document: Document) -> None:
    """Add a version that is not there, as the only one of its id."""
    values = doc_row(document)
    live = int(values[AT["status"]] == _ACTIVE)
    row, text = _insert(connection, changes, document.entry, values, (values[AT["own"]], None, live))
    changes.came(row, live, values[AT["id"]], len(text.text))


def _insert(
    connection: sqlite3.Connection,
    changes: Changes,
    entry: Entry,
    values: tuple[Any, ...],
    standing: Sequence[int | None],
) -> tuple[int, Text]:
    """Write the row of a version, ``doc_row`` of which is ``values``, and its words; return both."""
    label, until, live = standing
    row = connection.execute(INSERT_DOC, (changes.shard, label, live, until, *values)).lastrowid or 0
    text = text_of(entry)
    connection.execute(_INSERT_TEXT, (row, *text))
    changes.count(live or 0, 1, text.tokens)
    return row, text


def _relink(connection: sqlite3.Connection, changes: Changes, id: str) -> None:
    """Make the versions of an id agree, as ``_writing.relink`` does; what changes gets a new number."""
    for row, wanted, has in standings(connection.execute(VERSIONS, (changes.shard, id)).fetchall()):
        if wanted == has:
            continue
        connection.execute("UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'doc'")
        number = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'doc'").fetchone()[0]
        connection.execute(
            "UPDATE doc SET row = ?, shown = ?, known_until = ?, competes = ? WHERE row = ?", (number, *wanted, row)
        )
        connection.execute("UPDATE text SET row = ? WHERE row = ?", (number, row))
        tokens, text = connection.execute("SELECT tokens, text FROM text WHERE row = ?", (number,)).fetchone()
        was, now = has[2] or 0, wanted[2] or 0
        changes.went(row, was, id, text)
        changes.count(was, -1, -tokens)
        changes.came(number, now, id, len(text))
        changes.count(now, 1, tokens)


def _drop(connection: sqlite3.Connection, changes: Changes, id: str, row: int, pool: int) -> None:
    tokens, text = connection.execute("SELECT tokens, text FROM text WHERE row = ?", (row,)).fetchone()
    connection.execute("DELETE FROM text WHERE row = ?", (row,))
    connection.execute("DELETE FROM doc WHERE row = ?", (row,))
    changes.went(row, pool, id, text)
    changes.count(pool, -1, -tokens)
