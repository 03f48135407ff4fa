"""Which entries lead to another: what has to be looked at again when that one is rejected or erased."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from amem_core.errors import FormatError, NotFoundError
from amem_core.ports.store import Unreadable
from amem_core.services import committing
from amem_core.services.committing import Change, Current

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from amem_core.domain.entries import Entry
    from amem_core.runtime import Runtime

FLAGGED = "entry.flagged"
_DERIVED = b"derived_from"


def citing(runtime: Runtime, domain: str, id: str) -> Iterator[Current]:
    """Yield the current version of every other entry of the domain that names ``id`` in a link, a source or its text.

    Reads every file of the domain's record once and parses those that hold the id.
    """
    for current in _holding(runtime, domain, id.encode()):
        if current.entry.id != id and _cites(current.entry, id):
            yield current


def flagged_changes(currents: list[Current], now: datetime) -> list[Change]:
    """Return new versions that are due for review today; an entry that is due already stays as it is."""
    today = now.date()
    return [
        Change(committing.next_version(current, now, review_by=today), FLAGGED, current.digest)
        for current in currents
        if current.entry.review_by is None or current.entry.review_by > today
    ]


class Derivations:
    """What is derived from what in some domains, by ids alone.

    Made of every file of these domains' record, each read once and parsed where it may be derived from
    something. That takes a while, and wants no writer: ``follow`` adds what was written meanwhile.
    """

    def __init__(self, runtime: Runtime, domains: Sequence[str]) -> None:
        self._runtime = runtime
        self._heads = {domain: runtime.log.head(domain) for domain in domains}
        self._places: dict[str, str] = {}
        self._children: dict[str, list[str]] = {}
        for domain in domains:
            for current in _holding(runtime, domain, _DERIVED):
                self._add(domain, current.entry)

    def follow(self, domain: str) -> None:
        """Take in what the log of a domain tells of entries that were written since."""
        subjects = {
            event.subject
            for event in self._runtime.log.read(domain, after=self._heads[domain])
            if event.kind.startswith("entry.")
        }
        for id in sorted(subjects):
            with suppress(FormatError, NotFoundError):
                self._add(domain, committing.load(self._runtime, domain, id).entry)

    def of(self, id: str) -> dict[str, list[Current]]:
        """Return, by domain, what is derived from ``id``, and what is derived from that, and so on; nearest first."""
        found: dict[str, list[Current]] = {}
        waiting, seen = [id], {id}
        for origin in waiting:
            for child in self._children.get(origin, ()):
                if child in seen:
                    continue
                current = committing.load(self._runtime, self._places[child], child)
                if origin in current.entry.derived_from:
                    seen.add(child)
                    waiting.append(child)
                    found.setdefault(self._places[child], []).append(current)
        return found

    def _add(self, domain: str, entry: Entry) -> None:
        self._places[entry.id] = domain
        for origin in entry.derived_from:
            self._children.setdefault(origin, []).append(entry.id)


def _holding(runtime: Runtime, domain: str, wanted: bytes) -> Iterator[Current]:
    """Yield the entries whose bytes hold ``wanted`` somewhere."""
    for stored in runtime.store.entries(domain):
        if isinstance(stored, Unreadable):
            continue
        try:
            if wanted in runtime.store.read(domain, stored.id):
                yield committing.load(runtime, domain, stored.id)
        except (FormatError, NotFoundError):
            # Nothing can be said of a file that is broken, and nothing needs to be of one that has gone.
            continue


def _cites(entry: Entry, id: str) -> bool:
    links = (*entry.supersedes, *entry.derived_from, entry.superseded_by)
    sources = (source.partition("#")[0].lower() for source in entry.source)
    return id in links or id in sources or _names(entry.body, id) or _names(entry.summary, id)


def _names(text: str, id: str) -> bool:
    """Return whether a text holds the id as a whole word, not as the beginning of a longer id."""
    at = text.find(id)
    while at >= 0:
        after = text[at + len(id) : at + len(id) + 1]
        if not (after.isalnum() or after == "-"):
            return True
        at = text.find(id, at + 1)
    return False
