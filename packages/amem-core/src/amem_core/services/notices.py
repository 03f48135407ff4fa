"""What a reader must be told beside an entry's text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.domain.labels import Status

if TYPE_CHECKING:
    from datetime import datetime

    from amem_core.domain.entries import Entry
    from amem_core.domain.queries import Hit


def notices_of(entry: Entry | Hit, now: datetime, *, head: str | None = None) -> tuple[str, ...]:
    """Return one sentence for each thing that a reader of this entry must know, none when there is none.

    ``head`` is the end of the chain that supersedes the entry, where the caller has followed it.
    """
    found = []
    if entry.status is not Status.active:
        successor = f" by {entry.superseded_by}" if entry.superseded_by else ""
        holds = f"; what holds now is {head}" if head is not None and head != entry.superseded_by else ""
        found.append(f"{entry.id} is {entry.status}{successor}{holds}")
    if entry.review_by is not None and entry.review_by <= now.date():
        found.append(f"{entry.id} was to be reviewed by {entry.review_by.isoformat()}: check it before you rely on it")
    return tuple(found)
