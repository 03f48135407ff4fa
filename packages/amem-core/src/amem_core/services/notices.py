"""What a reader must be told beside an entry's text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.domain.labels import Status

if TYPE_CHECKING:
    from datetime import datetime

    from amem_core.domain.entries import Entry
    from amem_core.domain.queries import Hit


def notices_of(entry: Entry | Hit, now: datetime, *, head: Entry | None = None) -> tuple[str, ...]:
    """Return one sentence for each thing that a reader of this entry must know, none when there is none.

    ``head`` is the end of the chain that supersedes the entry, where the caller has followed it.
    """
    found = []
    if entry.status is not Status.active:
        superseded = "" if entry.status is Status.superseded else " and superseded"
        successor = f"{superseded} by {entry.superseded_by}" if entry.superseded_by else ""
        found.append(f"{entry.id} is {entry.status}{successor}{_end(entry, head)}")
    if entry.review_by is not None and entry.review_by <= now.date():
        found.append(f"{entry.id} was to be reviewed by {entry.review_by.isoformat()}: check it before you rely on it")
    return tuple(found)


def _end(entry: Entry | Hit, head: Entry | None) -> str:
    """Return what is to be said of the end of a chain: that it is further on, or that it holds no more either."""
    if head is None:
        return ""
    if head.status is not Status.active:
        return (
            f", which is {head.status}"
            if head.id == entry.superseded_by
            else f"; its chain ends in {head.id}, which is {head.status}"
        )
    return "" if head.id == entry.superseded_by else f"; what holds now is {head.id}"
