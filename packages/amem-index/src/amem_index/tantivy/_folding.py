"""Taking what waits in the catalog into Tantivy, and the directories that this makes and leaves.

A directory is ``state/tantivy/<domain>/<name>``; the name is made anew each time, so that what a reader
remembers of one is never taken for another. One process at a time writes below a domain, behind the
lock ``catalog.sqlite.fold.<domain>``; the catalog is free meanwhile. The order is: the catalog says,
durably, which commit is next, Tantivy commits, the catalog says that it did and forgets its journal. So
Tantivy is where the catalog says or at what it intends, also after a loss of power. What was cut short
is done again: readers prefer what the journal says of a row, and a fold that finds itself ahead of the
catalog removes each row before it adds it.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from amem_index.tantivy import _catalog, _engine
from amem_index.tantivy._engine import Directory, Writer, apart, translated

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from amem_index.tantivy._catalog import Catalog

_LONGEST_NAME = 100
_NAME_BYTES = 8
_NOT_PLAIN = re.compile(rb"[^a-z0-9_-]")


class Folds:
    """The directories below ``top`` and what is taken into them, with ``memory`` bytes for a writer."""

    def __init__(self, catalog: Catalog, top: str, memory: int) -> None:
        self._catalog = catalog
        self._top = top
        self._memory = memory

    def place(self, domain: str, generation: str) -> str:
        """Return the path of a directory of a domain."""
        return os.path.join(self._top, name_of(domain), generation)

    @contextmanager
    def alone(self, domain: str, seconds: float) -> Generator[None]:
        """Be the only one that folds ``domain``.

        Raises:
            UnavailableError: another is, and was not done in ``seconds``.
        """
        with self.alone_by_name(name_of(domain), seconds):
            yield

    @contextmanager
    def alone_by_name(self, name: str, seconds: float) -> Generator[None]:
        """Be the only one that folds the domain whose directory is called ``name``; see ``alone``."""
        with self._catalog.locked(f"fold.{name}", seconds):
            yield

    def fold(self, domain: str, shard: int) -> None:
        """Take in what waits. The caller is ``alone``."""
        with self._catalog.reading() as connection:
            was = _catalog.state_of(connection, shard)
        if was is None or was.head == was.folded:
            return
        if not was.generation:
            self.remake(domain, shard)
            return
        path = self.place(domain, was.generation)
        last = Directory(path).snapshot()
        if last.fold not in {was.fold, was.intent}:
            raise apart(path)
        fold = max(was.fold, was.intent) + 1
        # In one transaction, so that whoever sees the intent sees what was taken in.
        with self._catalog.durably() as connection:
            was = _catalog.state_of(connection, shard) or was
            _catalog.intend(connection, shard, fold)
            came, went = _catalog.waiting(connection, shard, was.head)
            documents = _catalog.documents(connection, came)
        gone = went if last.fold == was.fold else [*went, *came]
        with Writer(path, self._memory) as writer:
            writer.remove(gone)
            writer.add(documents)
            writer.commit(fold, removed=last.removed or bool(gone))
        with self._catalog.writing() as connection:
            _catalog.folded(connection, shard, was, was.generation, fold)

    def remake(self, domain: str, shard: int) -> None:
        """Write all that the catalog has of a shard into a new directory. The caller is ``alone``."""
        generation, path = self._make(domain)
        done = False
        try:
            with Writer(path, self._memory) as writer:
                with self._catalog.reading() as connection:
                    was = _catalog.state_of(connection, shard)
                    writer.add(_catalog.every_document(connection, shard))
                fold = 1 if was is None else max(was.fold, was.intent) + 1
                writer.commit(fold, removed=False)
            if was is not None:
                # Durably, since the old directory goes next.
                with self._catalog.durably() as connection:
                    done = _catalog.folded(connection, shard, was, generation, fold, anew=True)
        finally:
            if not done:
                _engine.remove(path)

    def build(self, domain: str, shard: int, documents: Iterable[tuple[Any, ...]]) -> None:
        """Write the documents of a shard that is being built into its directory, which it has from the beginning."""
        with self.alone(domain, self._catalog.busy_seconds):
            generation, path = self._make(domain)
            with self._catalog.writing() as connection:
                _catalog.begun(connection, shard, generation)
        with Writer(path, self._memory) as writer:
            writer.add(documents)
            writer.commit(1, removed=False)
        with self._catalog.writing() as connection:
            _catalog.built(connection, shard)

    def clean(self, name: str) -> bool:
        """Remove what the catalog does not name below a directory of ``top``; return whether all of it is gone.

        The caller is ``alone`` with the domain of that name.
        """
        with self._catalog.connection() as connection:
            named = _catalog.generations(connection)
        place = os.path.join(self._top, name)
        with translated(place, "cleaned"):
            found = os.listdir(place) if os.path.isdir(place) else []
            left = [each for each in found if each not in named and not _engine.remove(os.path.join(place, each))]
        return not left

    def names(self) -> list[str]:
        """Return the names of the domains' directories."""
        with translated(self._top, "read"), os.scandir(self._top) as found:
            return sorted(entry.name for entry in found if entry.is_dir())

    def _make(self, domain: str) -> tuple[str, str]:
        generation = os.urandom(_NAME_BYTES).hex()
        path = self.place(domain, generation)
        _engine.make(path)
        return generation, path


def name_of(domain: str) -> str:
    """Return the name of a domain's directory: the domain's where that is a plain one, and never another's."""
    encoded = domain.encode("utf-8", "replace")
    name = _NOT_PLAIN.sub(lambda byte: b"%%%02X" % byte[0][0], encoded).decode() or "%"
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}%{sha256(encoded).hexdigest()[:32]}"
