"""What a write does to the tables: a version in, an id out, a generation away. Runs inside the caller's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amem_core.domain.labels import Status
from amem_index._rows import doc_row, words_row
from amem_index.analysis import clean

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from amem_core.domain.entries import Document

# The versions of an id, the newest first, as ``standings`` takes them.
VERSIONS = (
    "SELECT row, known_from, own, status, shown, known_until, competes FROM doc WHERE shard = ? AND id = ?"
    " ORDER BY version DESC"
)
_TABLES = ("rest", "live")
_COPIED = "rowid, title, summary, body, aliases, exact"
INSERT_DOC = (
    "INSERT INTO doc(shard, shown, competes, known_until, status, type, tier, created, known_from, valid_from, valid_until,"
    " always_load, id, version, own, author, tags, sources, fingerprint, words, strand, card)"
    " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
# These tables' names are constants; values are always bound.
_INSERT_WORDS = tuple(
    f"INSERT INTO {table}(rowid, title, summary, body, aliases, exact) VALUES(?, ?, ?, ?, ?, ?)" for table in _TABLES
)
_DELETE_WORDS = tuple(f"DELETE FROM {table} WHERE rowid = ?" for table in _TABLES)  # noqa: S608
_MOVE_WORDS = tuple(
    f"INSERT INTO {table}({_COPIED}) SELECT {_COPIED} FROM {other} WHERE rowid = ?"  # noqa: S608
    for table, other in zip(_TABLES, reversed(_TABLES), strict=True)
)
_ACTIVE = Status.active.value
_CHUNK = 500
_OWN = 10  # Where ``doc_row`` has the label.


def put(connection: sqlite3.Connection, shard: int, document: Document) -> None:
    """Take in a version, in place of the same version if that is there."""
    entry = document.entry
    kept = connection.execute(
        "SELECT version, known_from, own, status, row, shown, known_until, competes FROM doc WHERE shard = ? AND id = ?",
        (shard, clean(entry.id)),
    ).fetchall()
    same = [row for row in kept if row[0] == entry.version]
    for row in same:
        _remove(connection, [(row[4], row[7])])
    _add(connection, shard, document)
    if len(kept) > len(same):
        relink(connection, shard, entry.id)


def relink(connection: sqlite3.Connection, shard: int, id: str) -> None:
    """Make the versions of an id agree: who answers from when until when, under which label, from which table.

    The version that answers for an instant is the highest of those known by then.
    """
    for row, wanted, has in standings(connection.execute(VERSIONS, (shard, clean(id))).fetchall()):
        if wanted != has:
            connection.execute("UPDATE doc SET shown = ?, known_until = ?, competes = ? WHERE row = ?", (*wanted, row))
        if wanted[2] != has[2]:
            connection.execute(_MOVE_WORDS[wanted[2] or 0], (row,))
            connection.execute(_DELETE_WORDS[1 - (wanted[2] or 0)], (row,))


def standings(versions: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, list[int | None], list[int | None]]]:
    """Yield, for each row of ``VERSIONS``, its number, and how it stands among the others and how it stood so far.

    A standing is the label that the version carries, until when it answers, and whether it competes.
    """
    until: int | None = None
    newest_label: int | None = None
    for row, known_from, own, status, *has in versions:
        newest_label = own if newest_label is None else newest_label
        yield row, [max(own, newest_label), until, int(until is None and status == _ACTIVE)], has
        until = known_from if until is None else min(until, known_from)


def forget(connection: sqlite3.Connection, id: str) -> None:
    """Remove every version of an id, and keep a rebuild that is under way from bringing one back."""
    rows = connection.execute(
        "SELECT row, competes FROM doc WHERE shard IN (SELECT number FROM shard) AND id = ?", (clean(id),)
    ).fetchall()
    _remove(connection, rows)
    connection.execute(
        "INSERT OR IGNORE INTO forgotten(shard, id) SELECT number, ? FROM shard WHERE state = 0", (clean(id),)
    )


def shards(connection: sqlite3.Connection, domain: str) -> tuple[int, list[int]]:
    """Return the domain's current shard, made if need be, and those that are being built."""
    current = 0
    building: list[int] = []
    for number, state in connection.execute("SELECT number, state FROM shard WHERE domain = ?", (clean(domain),)):
        if state:
            current = number
        else:
            building.append(number)
    return current or new_shard(connection, domain, state=1), building


def new_shard(connection: sqlite3.Connection, domain: str, *, state: int) -> int:
    """Make a shard of the domain, that readers see (``state`` 1) or do not."""
    made = connection.execute(
        "INSERT INTO shard(domain, state, watermark) VALUES(?, ?, 0)", (clean(domain), state)
    ).lastrowid
    return made or 0


def swap(connection: sqlite3.Connection, domain: str, shard: int, through: int) -> None:
    """Let readers see ``shard`` in place of what the domain had."""
    connection.execute("UPDATE shard SET state = 0 WHERE domain = ? AND state = 1", (clean(domain),))
    connection.execute("UPDATE shard SET state = 1, watermark = ? WHERE number = ?", (through, shard))
    connection.execute("DELETE FROM forgotten WHERE shard = ?", (shard,))


def sweep(connection: sqlite3.Connection) -> bool:
    """Remove a part of what readers do not see; return whether more may be left."""
    found = connection.execute("SELECT number FROM shard WHERE state = 0 LIMIT 1").fetchone()
    if found is None:
        return False
    rows = connection.execute("SELECT row, competes FROM doc WHERE shard = ? LIMIT ?", (found[0], _CHUNK)).fetchall()
    _remove(connection, rows)
    if len(rows) < _CHUNK:
        connection.execute("DELETE FROM shard WHERE number = ?", found)
        connection.execute("DELETE FROM forgotten WHERE shard = ?", found)
    return True


def stage(connection: sqlite3.Connection, shard: int, document: Document, *, older: bool) -> bool:
    """Take a version into a shard that is being built; return whether it was not there yet.

    What a writer put there meanwhile is later than what the rebuild read, and what was forgotten
    meanwhile stays forgotten. ``older`` says that a newer version follows at once, so that this one's
    text need not pass through ``live``.
    """
    key = (shard, clean(document.entry.id))
    there = connection.execute(
        "SELECT version FROM doc WHERE shard = ? AND id = ?"
        " UNION ALL SELECT NULL FROM forgotten WHERE shard = ? AND id = ?",
        (*key, *key),
    ).fetchall()
    if (document.entry.version,) in there or (None,) in there:
        return False
    _add(connection, shard, document, older=older)
    if older or there:
        relink(connection, shard, document.entry.id)
    return True


def _add(connection: sqlite3.Connection, shard: int, document: Document, *, older: bool = False) -> None:
    """Add a version that is not there, as the only one of its id; ``older`` says that a newer one follows."""
    values = doc_row(document)
    live = int(document.entry.status is Status.active and not older)
    row = connection.execute(INSERT_DOC, (shard, values[_OWN], live, None, *values)).lastrowid
    connection.execute(_INSERT_WORDS[live], (row, *words_row(document.entry)))


def _remove(connection: sqlite3.Connection, rows: list[tuple[int, int]]) -> None:
    for row, live in rows:
        connection.execute(_DELETE_WORDS[live], (row,))
        connection.execute("DELETE FROM doc WHERE row = ?", (row,))
