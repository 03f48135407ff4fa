"""The index in Tantivy: a directory for each domain, beside a catalog in SQLite, in ``state/tantivy``.

Tantivy answers a question in a tenth of the time that FTS5 takes, and takes 20 to 100 ms to make one
document visible. So a write does not wait for it. The catalog ``catalog.sqlite`` has a row for each
version, as the embedded index has, with the same code; listing, finding and filtering are its own. It
also has the words of each row, and a journal of the rows that came and went. A write is one transaction
on it, durable, and visible to every thread and process when it returns: a reader searches Tantivy for
what it has, and what the journal names in memory, and takes nothing from Tantivy that is no row any more.
When the journal is long enough, whoever wrote last takes it into Tantivy (``_folding``): one commit for a
few hundred documents. ``_views`` says why a reader never sees an entry twice or not at all meanwhile.

What this costs: the words are on disk twice, and in every process that reads a few hundred entries more
in memory. What it gives: Tantivy's directories follow from the catalog, so a forgotten text leaves them
by writing a new one, and one that is damaged or missing is named and made anew by a rebuild.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from amem_core.errors import UnavailableError
from amem_core.ports.index import IndexCapabilities
from amem_index import _writing
from amem_index._database import DamagedError
from amem_index._filters import filter_of
from amem_index._rows import hit
from amem_index.analysis import clean
from amem_index.config import SqliteSettings, check_tantivy
from amem_index.sqlite import HIT, SqliteIndex, check_domain, in_order
from amem_index.tantivy import _catalog
from amem_index.tantivy._catalog import Catalog, Changes
from amem_index.tantivy._folding import Folds, name_of
from amem_index.tantivy._searching import Search
from amem_index.tantivy._text import question_of
from amem_index.tantivy._views import Views

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from amem_core.domain.entries import Document
    from amem_core.domain.queries import Hit, Query
    from amem_index.config import TantivySettings

_MIB = 1 << 20
_BATCH_DOCUMENTS = 256
_BATCH_CHARACTERS = 1 << 20
# What waits is in the memory of every process that reads.
_MOST_CHARACTERS = 4 << 20
# A fold that cannot be done now is done by a later write, up to so many times as much as should wait.
_PATIENCE = 8


def open_index(root: str, settings: TantivySettings) -> TantivyIndex:
    """Open the index of the root at ``root``. Its directory is touched when it is first used.

    Raises:
        ConfigError: a setting is out of its range.
    """
    return TantivyIndex(os.path.join(root, "state", "tantivy"), check_tantivy(settings))


class TantivyIndex(SqliteIndex):
    """An ``Index`` (amem_core.ports.index) for many threads and processes.

    It is the embedded one as far as rows go; what is here is what words ask for.
    """

    PURGING = ("VACUUM",)

    def __init__(self, top: str, settings: TantivySettings) -> None:
        path = os.path.join(top, "catalog.sqlite")
        self._catalog = Catalog(path, SqliteSettings(settings.busy_seconds, settings.cache_mib))
        self._database = self._catalog
        self._top = top
        self._pending = settings.pending
        self._folds = Folds(self._catalog, top, settings.memory_mib * _MIB)
        self._views = Views(self._catalog, self._folds.place)

    @property
    def capabilities(self) -> IndexCapabilities:
        """See ``Index.capabilities``."""
        return IndexCapabilities(multi_process=True, files=(os.path.basename(self._top),))

    def apply(self, domain: str, documents: Sequence[Document], *, through: int) -> None:
        """See ``Index.apply``. Now and then it takes in what waits.

        Raises:
            UnavailableError: Tantivy's directory is damaged, or cannot be written and much more waits
                than should. What was applied stands.
        """
        check_domain(domain, documents)
        with self._catalog.writing() as connection:
            current, building = _writing.shards(connection, domain)
            for shard in (current, *building):
                changes = Changes(connection, shard)
                for document in documents:
                    _catalog.put(connection, changes, document)
                changes.save()
            connection.execute("UPDATE shard SET watermark = ? WHERE number = ?", (through, current))
            state = _catalog.state_of(connection, current) if documents else None
        if state is not None:
            self._follow(
                domain, current, max((state.head - state.folded) / self._pending, state.waiting / _MOST_CHARACTERS)
            )

    def forget(self, domain: str, id: str, keep: Document | None) -> bool:
        """See ``Index.forget``. Asked again, it tries again to get rid of the bytes.

        False also means that a rebuild is under way which has read the id, or that another process has
        the directory open that held it: that one lets go of it when it next looks.
        """
        if keep is not None:
            check_domain(domain, [keep])
        with self._catalog.writing() as connection:
            touched = _catalog.forget(connection, id, keep)
        gone = self._rewrite({clean(domain), *touched})
        return self._purge() and gone

    def search(self, query: Query) -> list[Hit]:
        """See ``Index.search``."""
        if query.limit < 1:
            return []
        question = question_of(query.text)
        where = filter_of(query.readable, query.conditions, query.as_of, query.valid_at) if question else None
        if question is None or where is None:
            return []
        domains = {clean(domain): domain for domain in query.readable.domains}
        with self._views.reading(list(domains)) as (connection, looked):
            found = Search(connection, looked, query, question, where=where).candidates()
            ranked = in_order(connection, found, query, loose=len(found) == len(question.tiers) > 1)
        return [hit(row[HIT:], score) for score, row in ranked[: query.limit]]

    def close(self) -> None:
        """See ``Index.close``."""
        super().close()
        self._views.forget()

    def _follow(self, domain: str, shard: int, due: float) -> None:
        """Take in what waits, if it is due, unless somebody is at it."""
        if due < 1:
            return
        try:
            # Where much more waits than should, a writer waits for whoever is at it.
            with self._folds.alone(domain, self._catalog.busy_seconds if due >= _PATIENCE else 0):
                self._folds.fold(domain, shard)
        except DamagedError:
            raise
        except UnavailableError:
            if due >= _PATIENCE:
                raise

    def _stage(self, domain: str, shard: int, documents: Iterable[Document]) -> int:
        staging = _Staging(self._catalog, domain, shard, documents)
        self._folds.build(domain, shard, staging.rows())
        with self._catalog.connection() as connection:
            dirty = shard in dict(_catalog.dirty(connection, built=False))
        if dirty:
            with self._folds.alone(domain, self._catalog.busy_seconds):
                self._folds.remake(domain, shard)
        return staging.count

    def _sweep(self) -> None:
        more = True
        while more:
            with self._catalog.writing() as connection:
                more = _catalog.sweep(connection)
        # What readers see now is so after a loss of power too: the directories that they saw before go next.
        with self._catalog.durably() as connection:
            _catalog.touch(connection)
        self._views.forget()
        for name in self._folds.names():
            # Who folds there now sweeps, or the next one does.
            with suppress(UnavailableError), self._folds.alone_by_name(name, 0):
                self._folds.clean(name)

    def _rewrite(self, domains: set[str]) -> bool:
        """Write the directories anew that may hold what was forgotten; return whether the old ones are gone."""
        with self._catalog.connection() as connection:
            domains |= {domain for _, domain in _catalog.dirty(connection, built=True)}
            clean = not _catalog.dirty(connection, built=False)
        for domain in sorted(domains):
            with self._folds.alone(domain, self._catalog.busy_seconds):
                # Only now, since a fold that was under way may have taken in what is forgotten.
                with self._catalog.connection() as connection:
                    dirty = [shard for shard, of in _catalog.dirty(connection, built=True) if of == domain]
                for shard in dirty:
                    self._folds.remake(domain, shard)
                self._views.forget()
                clean &= self._folds.clean(name_of(domain))
        return clean


class _Staging:
    """The rows of a rebuild as they come: in the catalog, a batch in each transaction, and on to Tantivy."""

    def __init__(self, catalog: Catalog, domain: str, shard: int, documents: Iterable[Document]) -> None:
        self._catalog = catalog
        self._domain = domain
        self._shard = shard
        self._documents = documents
        self.count = 0

    def rows(self) -> Iterator[tuple[object, ...]]:
        """Yield what Tantivy takes, once the catalog has it."""
        for batch in self._batches():
            check_domain(self._domain, [document for versions in batch for document in versions])
            with self._catalog.writing() as connection:
                changes = Changes(connection, self._shard)
                count, documents = _catalog.stage(connection, changes, batch)
                changes.save()
            self.count += count
            yield from documents

    def _batches(self) -> Iterator[list[list[Document]]]:
        """Yield batches of bounded size, in which the versions of an id stand together, or most of them."""
        batch: list[list[Document]] = []
        count = size = 0
        for document in self._documents:
            if batch and batch[-1][-1].entry.id == document.entry.id and size < _BATCH_CHARACTERS:
                batch[-1].append(document)
            else:
                if count >= _BATCH_DOCUMENTS or size >= _BATCH_CHARACTERS:
                    yield batch
                    batch = []
                    count = size = 0
                batch.append([document])
            count += 1
            size += len(document.entry.body)
        if batch:
            yield batch
