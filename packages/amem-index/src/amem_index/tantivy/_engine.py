"""Tantivy itself: one directory of it, who writes to it, what a reader sees of it, and what to say when it fails.

Every document is the words of one row of the catalog and what a question may narrow by; nothing is
stored. The words of what competes stand in a field of their own, so that what may not answer costs a
question nothing. A commit is numbered by a document of its own, so that a reader knows which it sees.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, cast

from tantivy import Document, FieldType, Index, Occur, Order, Query, SchemaBuilder

from amem_core.errors import AmemError, UnavailableError
from amem_index._database import DamagedError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence
    from types import TracebackType

# By ``competes`` of the catalog.
POOLS = ("rest", "live")
TIMES = ("created", "known_from", "known_until", "valid_from", "valid_until")
# A directory is in use as long as somebody holds this file of it; its end waits for that.
_HELD = "held"
# What the catalog knows of a row that Tantivy takes beside its words, in the order in which ``_document`` takes it.
# What is another for almost every row would cost as much as all words together: for that the catalog is asked.
TAKEN = ("row", "competes", "shown", "status", "type", "tier", "author", "always_load", "tags", *TIMES)
COLUMNS = ", ".join((*(f"d.{name}" for name in TAKEN), "t.text"))
# Every field takes part in comparisons, so an open end is the farthest instant there is.
FIRST, LAST = -(2**63), 2**63 - 1
_OPEN = (FIRST, FIRST, LAST, FIRST, LAST)
_HIGHEST_LABEL = 4
_LONGEST_MARK = 200
_MARKER = 0
_FULL = (f"os error {errno.ENOSPC}", f"code: {errno.ENOSPC}")
_BUSY = "LockBusy"
REINDEX = "run `amem reindex`: it is made anew from the record, which is not touched"


def mark(kind: str, value: object) -> str:
    """Return the form in which a property of a row is asked for; one that is too long is cut alike on both sides."""
    return f"{kind}:{value}"[:_LONGEST_MARK]


class Writer:
    """Writes to one directory; documents count once ``commit`` has returned. To be closed by leaving its block."""

    def __init__(self, path: str, memory: int) -> None:
        self.path = path
        with translated(path, "written"):
            self._index = (
                Index(_schema(), path) if not os.path.exists(os.path.join(path, "meta.json")) else _opened(path)
            )
            self._writer = self._index.writer(memory, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Merges that are under way end here, so that a directory at rest is whole; what was not committed is dropped.
        with translated(self.path, "written"):
            if kind is None:
                self._writer.wait_merging_threads()
            del self._writer

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add a document for each row of ``COLUMNS``."""
        with translated(self.path, "written"):
            for row in rows:
                self._writer.add_document(_document(row))

    def remove(self, rows: Sequence[int]) -> None:
        """Remove the documents of rows."""
        if not rows:
            return
        with translated(self.path, "written"):
            # By a query, since the deletion by a term takes numbers for signed ones and finds none in this field.
            self._writer.delete_documents_by_query(Query.term_set_query(self._index.schema, "row", rows))

    def commit(self, fold: int, *, removed: bool) -> None:
        """Make what was done durable, as number ``fold``; ``removed`` says whether anything was ever removed."""
        with translated(self.path, "written"):
            marker = Document()
            marker.add_unsigned("row", _MARKER)
            marker.add_unsigned("fold", fold * 2 + removed)
            self._writer.add_document(marker)
            self._writer.commit()


class Directory:
    """A reader of one directory, which cannot be taken away completely while this lives."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._held = -1
        if not os.path.isdir(path):
            message = f"the index {path} is missing"
            raise DamagedError(message, hint=REINDEX)
        self._held = _hold(path)
        with translated(path, "read"):
            if not Index.is_compatible(path):
                message = f"the index {path} was made by another version of Tantivy than the one installed"
                raise DamagedError(message, hint=REINDEX)
            self._index = _opened(path)

    def __del__(self) -> None:
        self.release()

    def release(self) -> None:
        """Let go of the directory. What was read of it before stays readable."""
        held, self._held = self._held, -1
        if held >= 0:
            os.close(held)

    def snapshot(self) -> Snapshot:
        """Return what has been committed by now."""
        with translated(self.path, "read"):
            self._index.reload()
            return Snapshot(self, self._index)


class Snapshot:
    """One state of a directory: ``fold`` is the number of its last commit, ``removed`` whether it counts what is gone."""

    def __init__(self, directory: Directory, index: Index) -> None:
        self.directory = directory
        self._searcher = index.searcher()
        self._documents = self._searcher.num_docs
        self._counts: dict[tuple[str, str], int] = {}
        self.schema = index.schema
        marker = Query.term_query(self.schema, "row", _MARKER)
        found = self._searcher.search(marker, 1, count=False, order_by_field="fold").hits
        last = int(found[0][0]) if found else 0
        self.fold = last // 2
        self.removed = bool(last % 2)

    def count(self, pool: str, word: str) -> int:
        """Return how many documents of ``pool`` hold ``word``."""
        known = self._counts.get((pool, word))
        if known is None:
            with translated(self.directory.path, "read"):
                if self.removed:
                    # The dictionary still counts what was removed and not merged away yet.
                    query = Query.term_query(self.schema, pool, word, "basic")
                    # The stubs do not know of the attribute.
                    known = int(cast("Any", self._searcher.search(query, 1, count=True)).count)
                else:
                    known = self._searcher.doc_freq(pool, word)
            self._counts[pool, word] = known
        return known

    def best(self, query: Query, most: int) -> list[tuple[int, float]]:
        """Return the rows of the best ``most`` documents with their ranks by Tantivy, best first."""
        limit = min(most, self._documents)
        if limit < 1:
            return []
        with translated(self.directory.path, "read"):
            found = self._searcher.search(query, limit, count=False).hits
            rows = self._searcher.fast_field_values("row", [address for _, address in found])
        return [(int(row), float(rank)) for row, (rank, _) in zip(rows, found, strict=True) if row]


def apart(path: str) -> DamagedError:
    """Return the error for a directory that is neither where its catalog says nor where that means to go."""
    return DamagedError(
        f"the index {path} is damaged: it and the catalog beside it are of different times", hint=REINDEX
    )


def make(path: str) -> None:
    """Make an empty directory, in which a ``Writer`` begins."""
    with translated(path, "written"):
        os.makedirs(path)
        os.close(os.open(os.path.join(path, _HELD), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
        _sync(os.path.dirname(path))


def remove(path: str) -> bool:
    """Remove a directory; return whether that is the end of it, which it is not while a reader holds it.

    Its bytes are out of reach at once; a reader that holds them lets them go with its next look.
    """
    try:
        held = os.open(os.path.join(path, _HELD), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except FileNotFoundError:
        return True
    try:
        for name in os.listdir(path):
            if name != _HELD:
                os.unlink(os.path.join(path, name))
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        os.unlink(os.path.join(path, _HELD))
        os.rmdir(path)
    finally:
        os.close(held)
    return True


def _sync(path: str) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _hold(path: str) -> int:
    try:
        held = os.open(os.path.join(path, _HELD), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        message = f"the index {path} is damaged: {_HELD} is missing"
        raise DamagedError(message, hint=REINDEX) from error
    fcntl.flock(held, fcntl.LOCK_SH)
    return held


def _opened(path: str) -> Index:
    index = Index.open(path)
    index.config_reader("manual")
    return index


def _schema() -> Any:
    builder = SchemaBuilder()
    builder.add_unsigned_field("row", indexed=True, fast=True)
    builder.add_unsigned_field("fold", fast=True)
    for pool in POOLS:
        builder.add_text_field(pool, tokenizer_name="whitespace")
    builder.add_text_field("marks", tokenizer_name="raw", index_option="basic")
    for time in TIMES:
        builder.add_integer_field(time, fast=True)
    return builder.build()


def _document(row: tuple[Any, ...]) -> Document:
    number, competes, shown, status, type_, tier, author, always, tags, *times, text = row
    document = Document()
    document.add_unsigned("row", number)
    marks = [f"l:{label}" for label in range(shown, _HIGHEST_LABEL)]
    marks += [f"s:{status}", mark("y", type_), f"t:{tier}", mark("a", author), f"w:{always}"]
    if times[2] is None:
        marks.append("n")
    if tags:
        # Lines as ``_rows.lines`` makes them.
        marks += [mark("g", tag) for tag in tags[1:-1].split("\n")]
    for each in marks:
        document.add_text("marks", each)
    for name, time, otherwise in zip(TIMES, times, _OPEN, strict=True):
        document.add_integer(name, otherwise if time is None else time)
    pool = POOLS[int(competes)]
    title, *others = str(text).split("\n")
    # Twice, so that what a title holds is among the candidates before what any other field holds as often.
    for field in (title, title, *others):
        if not field.isspace() and field:
            document.add_text(pool, field)
    return document


@contextmanager
def translated(path: str, done: str) -> Generator[None]:
    """Raise what Tantivy raises in the block as an error that may cross the port."""
    try:
        yield
    except AmemError:
        raise
    except OSError as error:
        message = f"the index {path} cannot be {done}: {error.strerror or error}"
        raise UnavailableError(message, hint="make the directory writable, or free some space") from error
    except ValueError as error:
        raise _error(path, done, str(error)) from error
    except BaseException as error:
        # A panic of the library is no Exception, and its class cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise _error(path, done, str(error)) from error


def _error(path: str, done: str, told: str) -> AmemError:
    told = told.strip().partition("\n")[0]
    if _BUSY in told:
        return UnavailableError(f"the index {path} has another writer", hint="try again, or end the process that hangs")
    if any(full in told for full in _FULL):
        return UnavailableError(
            f"the index {path} cannot be {done}: the disk is full", hint="free some space, then try again"
        )
    return DamagedError(f"the index {path} is damaged ({told})", hint=REINDEX)


__all__ = [
    "COLUMNS",
    "FIRST",
    "LAST",
    "POOLS",
    "REINDEX",
    "Directory",
    "FieldType",
    "Occur",
    "Order",
    "Query",
    "Snapshot",
    "Writer",
    "apart",
    "make",
    "mark",
    "remove",
    "translated",
]
