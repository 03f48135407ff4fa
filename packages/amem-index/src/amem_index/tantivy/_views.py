"""What a process remembers of each shard: a snapshot of Tantivy, and what came and went since, in memory.

A reader works on three things that change under it: the catalog, Tantivy's directory and what is
remembered here. They agree because of two rules.

- A snapshot is of the last commit that the reader's transaction on the catalog tells of, or of the one
  that it knows to be intended. Whatever that lacks is in the journal that the transaction sees, whatever
  it has twice is in it too, and whatever it holds besides is in no row of the catalog.
- What is remembered of the journal is never changed, only added to, each entry with its number; a reader
  looks at the numbers that its transaction knows. A fold makes a new ``View``; who holds the old one
  finishes with it.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from amem_index._database import DamagedError
from amem_index.tantivy._engine import POOLS, Directory, Snapshot, apart
from amem_index.tantivy._text import Text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Generator, Sequence

    from amem_index._database import Database
    from amem_index.tantivy._text import Term

# Each holds files open and up to a fold's worth of text.
_MOST_VIEWS = 64
_NEVER = 2**63 - 1
_NOTHING = Text(0, 0, 0, "")

_PARTS = (
    "SELECT p.shard, s.domain, p.generation, p.fold, p.intent, p.taken, p.epoch, p.head, p.live, p.live_tokens, p.rest, p.rest_tokens"
    " FROM shard s JOIN part p ON p.shard = s.number WHERE s.state = 1 AND s.domain"
)
_ONE_PART = _PARTS + " = ?"
_PARTS_OF = _PARTS + " IN (SELECT value FROM json_each(?))"  # noqa: S608  (a constant)
_JOURNAL = (
    "SELECT j.number, j.row, j.gone, j.pool, j.text, t.tokens, t.title, t.summary, t.text FROM journal j"
    " LEFT JOIN text t ON t.row = j.row AND j.gone = 0 WHERE j.shard = ? AND j.number > ? ORDER BY j.number"
)


class Part(NamedTuple):
    """The state of one shard's words as the catalog has it, see ``_schema``."""

    shard: int
    domain: str
    generation: str
    fold: int
    intent: int
    taken: int
    epoch: int
    head: int
    live: int
    live_tokens: int
    rest: int
    rest_tokens: int


class Pending:
    """A row that Tantivy may not have: its words, and from which number of the journal until which it is there."""

    __slots__ = ("came", "row", "text", "went", "words")

    def __init__(self, came: int, row: int, words: Text) -> None:
        self.came = came
        self.went = _NEVER
        self.row = row
        self.words = words
        self.text = words.text


class View:
    """One shard as of its last fold, and what came and went since."""

    def __init__(self, part: Part, snapshot: Snapshot | None) -> None:
        self.state = _State(part.shard, part.fold, part.epoch, part.generation)
        self.snapshot = snapshot
        # Up to this number of the journal, the snapshot has it.
        self._counted = part.taken if snapshot is not None and snapshot.fold != part.fold else 0
        self.number = 0
        self._pending: dict[int, Pending] = {}
        self._gone: list[tuple[int, int, str]] = []
        # By pool: which rows hold a word.
        self._holding: tuple[dict[str, list[Pending]], ...] = ({}, {})

    def is_of(self, part: Part) -> bool:
        """Return whether this is the shard as a reader's transaction has it."""
        state = self.state
        if (state.shard, state.fold, state.epoch, state.generation) != (
            part.shard,
            part.fold,
            part.epoch,
            part.generation,
        ):
            return False
        return self.snapshot is None or self.snapshot.fold in {part.fold, part.intent}

    def follow(self, connection: sqlite3.Connection, part: Part) -> None:
        """Take in what the journal has beyond what is known. One caller at a time."""
        for number, row, gone, pool, lost, *words in connection.execute(_JOURNAL, (part.shard, self.number)):
            if not gone:
                # One that went before it was ever looked at has no words any more.
                text = Text._make(words) if words[0] is not None else _NOTHING
                self._came(pool, Pending(number, row, text))
            elif row in self._pending:
                self._pending[row].went = number
            elif lost is not None:
                self._gone.append((number, pool, lost))
        self.number = max(self.number, part.head)

    def has(self, row: int, head: int) -> bool:
        """Return whether the row is here, so that Tantivy's copy of it, if it has one, does not count."""
        pending = self._pending.get(row)
        return pending is not None and pending.came <= head

    def holding(self, pool: int, term: Term, head: int) -> list[Pending]:
        """Return the rows here that hold the term."""
        words = self._holding[pool]
        if not term.begins:
            return [
                pending
                for pending in words.get(term.words[0], ())
                if pending.came <= head < pending.went and (len(term.words) == 1 or term.needle in pending.text)
            ]
        found: dict[int, Pending] = {}
        for word in list(words):
            if word.startswith(term.words[0]):
                found.update((pending.row, pending) for pending in words[word])
        return [pending for pending in found.values() if pending.came <= head < pending.went]

    def count(self, pool: int, word: str, head: int) -> int:
        """Return how many rows of ``pool`` hold a word, here and in Tantivy."""
        counted = self._counted
        total = self.snapshot.count(POOLS[pool], word) if self.snapshot is not None else 0
        for number, of, text in self._gone:
            total -= counted < number <= head and of == pool and f" {word} " in text
        for pending in self._holding[pool].get(word, ()):
            total += counted < pending.came <= head
            total -= counted < pending.went <= head
        return total

    def _came(self, pool: int, pending: Pending) -> None:
        self._pending[pending.row] = pending
        words = self._holding[pool]
        for word in set(pending.text.split()):
            words.setdefault(word, []).append(pending)


class Looked(NamedTuple):
    """One shard as a reader sees it: how far its transaction knows the journal is ``part.head``."""

    part: Part
    view: View


class Views:
    """The views of one index in one process. ``place`` gives a directory from its domain and its name."""

    def __init__(self, database: Database, place: Callable[[str, str], str]) -> None:
        self._database = database
        self._place = place
        self._inherited: list[object] = []
        self._reset()

    @contextmanager
    def reading(self, domains: Sequence[str]) -> Generator[tuple[sqlite3.Connection, list[Looked]]]:
        """Give a read transaction on the catalog and the shards of ``domains``, in agreement.

        Raises:
            DamagedError: a directory of Tantivy's is missing or damaged.
        """
        statement = _ONE_PART if len(domains) == 1 else _PARTS_OF
        listed = domains[0] if len(domains) == 1 else json.dumps(domains)
        if self._process != os.getpid():
            # A parent's searchers are not this process's to use, and another of its threads may have held the lock.
            self._inherited.append((self._views, self._snapshots))
            self._reset()
        failed: list[Part] | None = None
        while True:
            with self._database.reading() as connection:
                parts = [Part._make(row) for row in connection.execute(statement, (listed,)).fetchall()]
                try:
                    looked = [Looked(part, self._view(connection, part)) for part in parts]
                except DamagedError:
                    # A directory may have made way for another, or gone on, since the transaction began.
                    if parts == failed:
                        raise
                    failed = parts
                    continue
                yield connection, looked
                return

    def forget(self) -> None:
        """Let go of everything, so that directories can be removed."""
        with self._lock:
            self._views.clear()
            self._snapshots.clear()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._views: OrderedDict[str, View] = OrderedDict()
        self._snapshots: dict[str, Snapshot] = {}

    def _view(self, connection: sqlite3.Connection, part: Part) -> View:
        """Return the shard's view, brought up to what the transaction knows."""
        known = self._views.get(part.domain)
        if known is not None and known.number >= part.head and known.is_of(part):
            return known
        with self._lock:
            kept = self._views.get(part.domain)
            view = kept if kept is not None and kept.is_of(part) else View(part, self._snapshot(part))
            if view.number < part.head:
                view.follow(connection, part)
            if kept is None or view.state >= kept.state:
                self._keep(part.domain, view)
            elif view.state.generation != kept.state.generation:
                # The transaction is older than a swap: nobody else will ask for this.
                self._snapshots.pop(view.state.generation, None)
            return view

    def _keep(self, domain: str, view: View) -> None:
        before = self._views.pop(domain, None)
        if before is not None and before.state.generation != view.state.generation:
            self._snapshots.pop(before.state.generation, None)
        self._views[domain] = view
        if len(self._views) > _MOST_VIEWS:
            _, oldest = self._views.popitem(last=False)
            self._snapshots.pop(oldest.state.generation, None)

    def _snapshot(self, part: Part) -> Snapshot | None:
        if not part.generation:
            return None
        snapshot = self._snapshots.get(part.generation)
        if snapshot is None or snapshot.fold not in {part.fold, part.intent}:
            directory = snapshot.directory if snapshot else Directory(self._place(part.domain, part.generation))
            snapshot = directory.snapshot()
            self._snapshots[part.generation] = snapshot
        if snapshot.fold not in {part.fold, part.intent}:
            raise apart(snapshot.directory.path)
        return snapshot


class _State(NamedTuple):
    """What a view is of. The later of two of one domain is the greater."""

    shard: int
    fold: int
    epoch: int
    generation: str
