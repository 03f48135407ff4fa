"""What happened: an event of a domain's log. Ids, digests and figures, never an entry's text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple


class NewEvent(NamedTuple):
    """An event that has no place in a log yet.

    Attributes:
        kind: ``entry.<what>``, ``task.<transition>``, ``import.<what>`` or ``tombstone.lifted``.
        subject: the id of the entry or task that it is about; of an import, its manifest's digest.
        actor: the author on whose behalf it happened.
        time: aware, UTC.
        data: small JSON values: versions, digests, labels, fences; never a body, a title or a summary.
    """

    kind: str
    subject: str
    actor: str
    time: datetime
    data: Mapping[str, Any]


class Event(NamedTuple):
    """An event in its place: ``seq`` counts from 1 without a gap in one domain's log.

    ``chain`` is the hexadecimal SHA-256 over the chain of the event before and this event's
    canonical bytes, so that a changed or removed event shows.
    """

    domain: str
    seq: int
    kind: str
    subject: str
    actor: str
    time: datetime
    data: Mapping[str, Any]
    chain: str
