"""Which entries lead to another: what has to be looked at again when that one is rejected or erased."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.errors import FormatError, NotFoundError
from amem_core.ports.store import Unreadable
from amem_core.services import committing
from amem_core.services.committing import Change, Current

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from amem_core.domain.entries import Entry
    from amem_core.runtime import Runtime

FLAGGED = "entry.flagged"


def citing(runtime: Runtime, domain: str, id: str) -> Iterator[Current]:
    """Yield the current version of every other entry of the domain that names ``id`` in a link, a source or its text.

    Reads every file of the domain's record once and parses those that hold the id.
    """
    for current in _holding(runtime, domain, id):
        if _cites(current.entry, id):
            yield current


def derived(runtime: Runtime, domain: str, id: str) -> list[Current]:
    """Return what is derived from ``id``, and what is derived from that, and so on; nearest first."""
    found: dict[str, Current] = {}
    waiting = [id]
    while waiting:
        origin = waiting.pop(0)
        for current in _holding(runtime, domain, origin):
            entry = current.entry
            if origin in entry.derived_from and entry.id not in found and entry.id != id:
                found[entry.id] = current
                waiting.append(entry.id)
    return list(found.values())


def flagged_changes(currents: list[Current], now: datetime) -> list[Change]:
    """Return new versions that are due for review today; an entry that is due already stays as it is."""
    today = now.date()
    return [
        Change(committing.next_version(current, now, review_by=today), FLAGGED, current.digest)
        for current in currents
        if current.entry.review_by is None or current.entry.review_by > today
    ]


def _holding(runtime: Runtime, domain: str, id: str) -> Iterator[Current]:
    """Yield the entries, but for ``id`` itself, whose bytes hold the id somewhere."""
    wanted = id.encode()
    for stored in runtime.store.entries(domain):
        if isinstance(stored, Unreadable) or stored.id == id:
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
