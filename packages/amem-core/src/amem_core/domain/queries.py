"""What is asked of an index, and what it answers.

Named tuples, because every command pays for these at its start, and a tenth of what dataclasses cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from types import MappingProxyType
from typing import NamedTuple

from amem_core.domain.labels import Label, Status, Tier


class ReadFilter(NamedTuple):
    """What a session may read: per domain, the highest label. A domain that is not named is closed.

    It is the policy's residual and goes into every index query.
    """

    domains: Mapping[str, Label]

    def allows(self, domain: str, label: Label) -> bool:
        """Return whether an entry of ``domain`` and ``label`` may be read."""
        highest = self.domains.get(domain)
        return highest is not None and label <= highest

    def narrowed(self, domain: str | None) -> ReadFilter:
        """Return the filter cut down to ``domain``, or itself when ``domain`` is None."""
        if domain is None:
            return self
        return ReadFilter({name: label for name, label in self.domains.items() if name == domain})


CLOSED = ReadFilter(MappingProxyType({}))


class Conditions(NamedTuple):
    """What the caller narrows a search by. Every field that is set must hold.

    An entry has all of ``tags`` and one of ``any_tags``. ``fingerprint`` finds entries of exactly the same type, title, summary and body.
    """

    types: tuple[str, ...] = ()
    statuses: tuple[Status, ...] = (Status.active,)
    tiers: tuple[Tier, ...] = ()
    authors: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    any_tags: tuple[str, ...] = ()
    highest_label: Label | None = None
    created_from: datetime | None = None
    created_until: datetime | None = None
    always_load: bool | None = None
    source_prefix: str | None = None
    fingerprint: str | None = None


class Query(NamedTuple):
    """One question to an index.

    ``text`` is words, never syntax; empty text matches nothing by words, so a listing is asked with
    ``Index.select``. ``as_of`` answers from what was known then, ``valid_at`` from what was true then.
    """

    text: str
    readable: ReadFilter
    conditions: Conditions = Conditions()
    limit: int = 10
    as_of: datetime | None = None
    valid_at: datetime | None = None


class Hit(NamedTuple):
    """One answer of an index: an entry's card without its body. ``score`` is higher for better."""

    id: str
    version: int
    domain: str
    type: str
    title: str
    summary: str
    author: str
    label: Label
    tier: Tier
    status: Status
    created: datetime
    updated: datetime
    digest: str
    score: float = 0.0
    source: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    valid_from: date | datetime | None = None
    valid_until: date | datetime | None = None
    review_by: date | None = None
    superseded_by: str | None = None


class SearchResult(NamedTuple):
    """The hits of one search, best first.

    ``domains`` were searched; ``masks`` name the clocks that ran (``as-of <time>``, ``valid-at
    <time>``); ``notices`` are for the reader, such as a passed review date or what to try after no
    hit. ``sections`` holds, for depth ``sections``, the text that answers, by entry id.
    """

    query: str
    hits: tuple[Hit, ...]
    domains: tuple[str, ...]
    masks: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    sections: dict[str, str] | None = None
