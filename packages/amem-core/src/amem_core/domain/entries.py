"""An entry: one atomic piece of knowledge, as one version of it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from types import MappingProxyType
from typing import Any

from amem_core.domain.labels import Label, Status, Tier

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One version of an entry (contract, section 4).

    ``created`` and ``updated`` are aware and in UTC. ``valid_from`` and ``valid_until`` are a date
    or an aware time, with the offset that was given. ``extra`` holds fields that the format does
    not know, so that they survive a round trip.
    """

    id: str
    version: int
    type: str
    domain: str
    title: str
    summary: str
    body: str
    author: str
    created: datetime
    updated: datetime
    classification: Label
    trust_tier: Tier = Tier.raw
    status: Status = Status.active
    valid_from: date | datetime | None = None
    valid_until: date | datetime | None = None
    source: tuple[str, ...] = ()
    confidence: float | None = None
    review_by: date | None = None
    supersedes: tuple[str, ...] = ()
    superseded_by: str | None = None
    derived_from: tuple[str, ...] = ()
    verified: tuple[Mapping[str, Any], ...] = ()
    rejected: tuple[Mapping[str, Any], ...] = ()
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    always_load: bool = False
    lifecycle: str | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a caller asks to be written: the fields of an entry that a caller decides.

    With ``id`` the draft is a new version of that entry, whose type, domain and creation stay.
    Without it, it is a new entry. ``label`` is a wish: the policy raises it to what the session has
    read and to the domain's own.
    """

    domain: str
    type: str
    title: str
    summary: str
    body: str = ""
    id: str | None = None
    label: Label | None = None
    valid_from: date | datetime | None = None
    valid_until: date | datetime | None = None
    source: tuple[str, ...] = ()
    confidence: float | None = None
    review_by: date | None = None
    supersedes: tuple[str, ...] = ()
    derived_from: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    always_load: bool = False
    lifecycle: str | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True)
class Document:
    """What an index keeps of one version: the entry, its stored bytes' digest, and when it was learned."""

    entry: Entry
    digest: str
    known_from: datetime
