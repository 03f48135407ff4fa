"""The links of a bundle's entries, with each other and with what is here: what leads nowhere, what leads back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.errors import FormatError, NotFoundError
from amem_core.services.committing import load

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from amem_core.domain.entries import Entry
    from amem_core.runtime import Runtime


class Links:
    """Collects the links of entries that pass by. Keeps ids alone, and those of entries that have links."""

    def __init__(self) -> None:
        # From an entry to what supersedes it.
        self._newer: dict[str, set[str]] = {}
        # What is led to, with one of those that lead there.
        self._targets: dict[str, str] = {}

    def add(self, entry: Entry) -> None:
        """Take in the links of one entry of the bundle."""
        self._chain(entry)
        for target in (*entry.supersedes, *entry.derived_from, entry.superseded_by):
            if target is not None:
                self._targets.setdefault(target, entry.id)

    def dangling(self, known: Container[str], runtime: Runtime, domain: str) -> Iterator[tuple[str, str]]:
        """Yield what leads to an entry that is neither in the bundle, whose ids are ``known``, nor here."""
        for target, source in self._targets.items():
            if target not in known and _here(runtime, domain, target) is None:
                yield source, target

    def cycles(self, known: Container[str], runtime: Runtime, domain: str) -> Iterator[list[str]]:
        """Yield every chain of supersession that leads back to where it began, as the ids along it.

        What is here is followed as well, but for ids that are ``known``: those are the bundle's.
        """
        self._join(known, runtime, domain)
        done: set[str] = set()
        for start in sorted(self._newer):
            yield from self._cycles_from(start, done)

    def _chain(self, entry: Entry) -> None:
        if entry.superseded_by is not None:
            self._newer.setdefault(entry.id, set()).add(entry.superseded_by)
        for older in entry.supersedes:
            self._newer.setdefault(older, set()).add(entry.id)

    def _join(self, known: Container[str], runtime: Runtime, domain: str) -> None:
        """Add the chains of the entries here that the bundle's lead to."""
        seen: set[str] = set()
        waiting = self._outside(known, seen)
        while waiting:
            for id in waiting:
                entry = _here(runtime, domain, id)
                if entry is not None:
                    self._chain(entry)
            seen |= waiting
            waiting = self._outside(known, seen)

    def _outside(self, known: Container[str], seen: set[str]) -> set[str]:
        named = self._newer.keys() | {id for following in self._newer.values() for id in following}
        return {id for id in named if id not in known and id not in seen}

    def _cycles_from(self, start: str, done: set[str]) -> Iterator[list[str]]:
        if start in done:
            return
        path = [start]
        places = {start: 0}
        waiting = [sorted(self._newer.get(start, ()))]
        while path:
            if not waiting[-1]:
                waiting.pop()
                id = path.pop()
                del places[id]
                done.add(id)
                continue
            following = waiting[-1].pop(0)
            if following in places:
                yield path[places[following] :]
            elif following not in done:
                places[following] = len(path)
                path.append(following)
                waiting.append(sorted(self._newer.get(following, ())))


def _here(runtime: Runtime, domain: str, id: str) -> Entry | None:
    """Return the entry, None when there is none or its file cannot be read."""
    try:
        return load(runtime, domain, id).entry
    except (NotFoundError, FormatError):
        return None
