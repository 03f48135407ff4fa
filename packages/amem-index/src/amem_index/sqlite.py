"""The embedded index: SQLite FTS5 in ``state/index.sqlite``.

Derived and disposable. A deleted file, or one of another version, is an empty index whose watermarks
are 0, so whoever follows the log rebuilds it; a damaged one is an error whose remedy is a rebuild.
Text with no word in it (``*``, ``👍``, nothing) finds nothing. A limit below 1 asks for nothing.
"""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, Any, Literal

from amem_core.domain.labels import Status
from amem_core.errors import InvalidError
from amem_core.ports.index import IndexCapabilities, Kept
from amem_index import _writing
from amem_index._database import DamagedError, Database
from amem_index._filters import ONLY_ACTIVE, Filter, filter_of, known
from amem_index._naming import Told, gains
from amem_index._neighbours import DEPTH, Candidate, neighbours, spread
from amem_index._rows import HIT_COLUMNS, KEPT_COLUMNS, hit, kept
from amem_index.analysis import clean, expressions
from amem_index.config import check_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from amem_core.domain.entries import Document
    from amem_core.domain.queries import Conditions, Hit, Query, ReadFilter
    from amem_index.config import SqliteSettings

_MOST = 2**31
_BATCH_DOCUMENTS = 256
_BATCH_CHARACTERS = 1 << 20
_PURGE_WAIT_MS = 1000
_NO_WAIT = 10.0 * 365 * 24 * 3600
_ORDERS = {"newest": "d.created DESC, d.id DESC", "oldest": "d.created, d.id", "id": "d.id"}
_UNINDEXED = {order: by.replace("d.", "+d.") for order, by in _ORDERS.items()}
_STEP = 1e-9
HIT = 4  # Where a row's hit begins, behind its number, its rank, its words and when it begins to be true.
_AUTHOR, _CREATED = HIT + 3, HIT + 7
_PAGE = 500
_VERSIONS = (
    f"SELECT {KEPT_COLUMNS} FROM doc d"  # noqa: S608  (a constant)
    " WHERE d.shard = (SELECT number FROM shard WHERE domain = ? AND state = 1)"
    " AND (d.id, d.version) > (?, ?) ORDER BY d.id, d.version LIMIT ?"
)

Row = tuple[Any, ...]


def open_index(root: str, settings: SqliteSettings) -> SqliteIndex:
    """Open the index of the root at ``root``. The file is touched when it is first used.

    Raises:
        ConfigError: a setting is out of its range.
    """
    return SqliteIndex(os.path.join(root, "state", "index.sqlite"), check_settings(settings))


class SqliteIndex:
    """An ``Index`` (amem_core.ports.index) in one SQLite file, for many threads and processes."""

    # Merging drops the words of removed rows; the deleted pages were zeroed as they were freed.
    PURGING: tuple[str, ...] = (
        "INSERT INTO live(live) VALUES('optimize')",
        "INSERT INTO rest(rest) VALUES('optimize')",
        "VACUUM",
    )

    def __init__(self, path: str, settings: SqliteSettings) -> None:
        self._database = Database(path, settings)

    @property
    def capabilities(self) -> IndexCapabilities:
        """See ``Index.capabilities``."""
        name = os.path.basename(self._database.path)
        return IndexCapabilities(multi_process=True, files=(name, f"{name}-wal", f"{name}-shm", f"{name}-journal"))

    def apply(self, domain: str, documents: Sequence[Document], *, through: int) -> None:
        """See ``Index.apply``."""
        check_domain(domain, documents)
        with self._database.writing() as connection:
            current, building = _writing.shards(connection, domain)
            for shard in (current, *building):
                for document in documents:
                    _writing.put(connection, shard, document)
            connection.execute("UPDATE shard SET watermark = ? WHERE number = ?", (through, current))

    def watermark(self, domain: str) -> int:
        """See ``Index.watermark``."""
        with self._database.connection() as connection:
            row = connection.execute(
                "SELECT watermark FROM shard WHERE domain = ? AND state = 1", (clean(domain),)
            ).fetchone()
        return 0 if row is None else int(row[0])

    def rebuild(self, domain: str, documents: Iterable[Document], *, through: int) -> int:
        """See ``Index.rebuild``. A damaged file is deleted first; other domains' watermarks are then 0."""
        self._mend()
        with self._database.connection():
            pass  # So that the directory of the lock is there.
        with self._database.locked("rebuild", _NO_WAIT):
            self._sweep()
            with self._database.writing() as connection:
                shard = _writing.new_shard(connection, domain, state=0)
            try:
                count = self._stage(domain, shard, documents)
                with self._database.writing() as connection:
                    _writing.swap(connection, domain, shard, through)
            except DamagedError:
                self._database.discard()
                raise
            finally:
                # After the swap it removes what was there before; after a failure, what was staged.
                self._sweep()
        return count

    def forget(self, domain: str, id: str, keep: Document | None) -> bool:
        """See ``Index.forget``. Asked again, it tries again to get rid of the bytes."""
        if keep is not None:
            check_domain(domain, [keep])
        with self._database.writing() as connection:
            _writing.forget(connection, id)
            if keep is not None:
                current, building = _writing.shards(connection, domain)
                for shard in (current, *building):
                    _writing.put(connection, shard, keep)
        return self._purge()

    def search(self, query: Query) -> list[Hit]:
        """See ``Index.search``."""
        if query.limit < 1:
            return []
        asked = expressions(query.text)
        where = filter_of(query.readable, query.conditions, query.as_of, query.valid_at) if asked else None
        if where is None:
            return []
        limit = min(query.limit, _MOST)
        with self._database.reading() as connection:
            found = _candidates(connection, tables_of(query), asked, where, limit)
            ranked = in_order(connection, found, query, loose=len(found) == len(asked) > 1)
        return [hit(row[HIT:], score) for score, row in ranked[:limit]]

    def select(
        self,
        readable: ReadFilter,
        conditions: Conditions,
        *,
        order: Literal["newest", "oldest", "id"] = "newest",
        limit: int = 100,
        as_of: datetime | None = None,
        valid_at: datetime | None = None,
    ) -> list[Hit]:
        """See ``Index.select``."""
        if order not in _ORDERS:
            message = f"{order!r} is no order of a listing"
            raise InvalidError(message, hint=f"one of: {', '.join(_ORDERS)}")
        where = filter_of(readable, conditions, as_of, valid_at)
        if where is None or limit < 1:
            return []
        # A fingerprint finds one row or none: the planner must not walk a domain for the sake of the order.
        by = _ORDERS[order] if conditions.fingerprint is None else _UNINDEXED[order]
        statement = f"SELECT {HIT_COLUMNS} FROM doc d WHERE {where.sql} ORDER BY {by} LIMIT ?"  # noqa: S608  (bound)
        with self._database.connection() as connection:
            rows = connection.execute(statement, (*where.values, min(limit, _MOST))).fetchall()
        return [hit(row) for row in rows]

    def find(self, id: str, *, as_of: datetime | None = None) -> Hit | None:
        """See ``Index.find``."""
        where = Filter()
        where.add("d.shard IN (SELECT number FROM shard WHERE state = 1) AND d.id = ?", clean(id))
        known(where, as_of)
        statement = (
            f"SELECT {HIT_COLUMNS} FROM doc d WHERE {where.sql}"  # noqa: S608  (bound)
            " ORDER BY d.version DESC, d.known_from DESC LIMIT 1"
        )
        with self._database.connection() as connection:
            row = connection.execute(statement, where.values).fetchone()
        return None if row is None else hit(row)

    def versions(self, domain: str, id: str | None = None) -> Iterator[Kept]:
        """See ``Index.versions``. A page at a time, so that no transaction stays open while the caller thinks."""
        at = ("", 0) if id is None else (clean(id), -1)
        while True:
            with self._database.connection() as connection:
                rows = connection.execute(_VERSIONS, (clean(domain), *at, _PAGE)).fetchall()
            for row in rows:
                if id is not None and row[0] != at[0]:
                    return
                yield kept(row)
            if len(rows) < _PAGE:
                return
            at = (rows[-1][0], rows[-1][1])

    def close(self) -> None:
        """See ``Index.close``."""
        self._database.close()

    def _stage(self, domain: str, shard: int, documents: Iterable[Document]) -> int:
        count = 0
        for batch in _batches(documents):
            check_domain(domain, [document for document, _ in batch])
            with self._database.writing() as connection:
                count += sum(_writing.stage(connection, shard, document, older=older) for document, older in batch)
        return count

    def _sweep(self) -> None:
        more = True
        while more:
            with self._database.writing() as connection:
                more = _writing.sweep(connection)

    def _mend(self) -> None:
        """Delete the file if it is damaged."""
        try:
            with self._database.connection() as connection:
                fault = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        except DamagedError:
            fault = "damaged"
        if fault != "ok":
            self._database.discard()

    def _purge(self) -> bool:
        """Rewrite what still holds removed text; return whether all of it is gone from every file."""
        with self._database.connection() as connection, self._database.locked():
            connection.execute(f"PRAGMA busy_timeout = {_PURGE_WAIT_MS}")
            try:
                for statement in self.PURGING:
                    connection.execute(statement)
                held = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                    return False
                raise
            finally:
                connection.execute(f"PRAGMA busy_timeout = {int(self._database.busy_seconds * 1000)}")
        return not held


def check_domain(domain: str, documents: Sequence[Document]) -> None:
    """Raise ``InvalidError`` when one of the documents is of another domain."""
    for document in documents:
        if document.entry.domain != domain:
            message = f"{document.entry.id} is of domain {document.entry.domain!r}, not {domain!r}"
            raise InvalidError(message, hint="apply each domain's entries under its own name")


def tables_of(query: Query) -> tuple[str, ...]:
    """Return which tables of words can hold an answer."""
    if query.as_of is not None or query.valid_at is not None:
        return ("live", "rest")
    if query.conditions.statuses == ONLY_ACTIVE:
        return ("live",)
    if query.conditions.statuses and Status.active not in query.conditions.statuses:
        return ("rest",)
    return ("live", "rest")


def _candidates(
    connection: sqlite3.Connection, tables: tuple[str, ...], asked: Sequence[str], where: Filter, wanted: int
) -> list[list[Row]]:
    """Return the best rows of each expression that none before it matched, until at least ``wanted`` are found.

    Of the last expression, which asks for some of several words, more are returned: there words alone
    tell little, and the second look may bring up what stood lower.
    """
    found: list[list[Row]] = []
    seen: set[int] = set()
    for expression in asked:
        loose = len(found) + 1 == len(asked) > 1
        more = max(wanted, DEPTH) if loose else wanted
        best = _best(connection, tables, expression, where, wanted=more - len(seen), seen=seen)
        found.append(best)
        seen.update(row[0] for row in best)
        if len(seen) >= wanted:
            break
    return found


def in_order(
    connection: sqlite3.Connection, found: list[list[Row]], query: Query, *, loose: bool
) -> list[tuple[float, Row]]:
    """Return the rows with their scores, best first: those of an earlier expression come before those of a later one.

    ``loose`` says that the last expression was reached, so that a second look is worth its cost.
    """
    scores = _second_look(connection, found, query) if loose else {}
    ranked: list[tuple[float, Row]] = []
    for best in found:
        scored = [(scores.get(row[0], -row[1]), row) for row in best]
        scored.sort(key=lambda each: (-each[0], each[1][HIT]))
        _raise_above(ranked, scored)
        ranked += scored
    return ranked


def _second_look(connection: sqlite3.Connection, found: list[list[Row]], query: Query) -> dict[int, float]:
    rows = [row for best in found for row in best]
    candidates = [Candidate(row[0], -row[1], row[2]) for row in rows]
    # What stood beside an entry then is not known to the table: by that clock the words alone count.
    beside = neighbours(connection, candidates) if query.as_of is None else {}
    scores = spread(candidates, beside)
    told = [Told(row[0], row[_AUTHOR], row[3] if row[3] is not None else row[_CREATED]) for row in rows]
    for number, gain in gains(query.text, told).items():
        scores[number] *= gain
    return scores


def _best(
    connection: sqlite3.Connection,
    tables: tuple[str, ...],
    expression: str,
    where: Filter,
    *,
    wanted: int,
    seen: set[int],
) -> list[Row]:
    """Return the ``wanted`` best rows that match and are not ``seen``, best first."""
    found: list[Row] = []
    for table in tables:
        # FTS5 gives its rows by rank, so the filter is asked of the first few only. It is left to run on while
        # scores are equal, since equal scores are ordered by id.
        statement = (
            f"SELECT d.row, {table}.rank, d.words, d.valid_from, {HIT_COLUMNS} FROM {table} CROSS JOIN doc d ON d.row = {table}.rowid"  # noqa: S608  (constants)
            f" WHERE {table} MATCH ? AND {where.sql} ORDER BY {table}.rank"
        )
        rows = connection.execute(statement, (expression, *where.values))
        taken = 0
        for row in rows:
            if taken >= wanted and row[1] != found[-1][1]:
                break
            if row[0] not in seen:
                found.append(row)
                taken += 1
        rows.close()
    found.sort(key=lambda row: (row[1], row[HIT]))
    del found[wanted:]
    return found


def _raise_above(found: list[tuple[float, Row]], next_best: list[tuple[float, Row]]) -> None:
    """Lift the scores of those that come first anyway, so that scores fall from first to last."""
    if not found or not next_best:
        return
    lift = next_best[0][0] + _STEP - found[-1][0]
    if lift > 0:
        found[:] = [(score + lift, row) for score, row in found]


def _batches(documents: Iterable[Document]) -> Iterator[list[tuple[Document, bool]]]:
    """Yield documents in parts of bounded size, each with whether a newer version of its id follows it."""
    batch: list[tuple[Document, bool]] = []
    size = 0
    held: Document | None = None
    for document in documents:
        if held is not None:
            after, before = document.entry, held.entry
            batch.append((held, after.id == before.id and after.version > before.version))
            size += len(before.body)
            if len(batch) >= _BATCH_DOCUMENTS or size >= _BATCH_CHARACTERS:
                yield batch
                batch = []
                size = 0
        held = document
    if held is not None:
        batch.append((held, False))
        yield batch
