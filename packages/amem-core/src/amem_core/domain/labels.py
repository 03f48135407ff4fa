"""Labels, trust tiers and statuses: the three scales on which an entry stands."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Self

from amem_core.errors import InvalidError


class _Scale(IntEnum):
    """An ordered scale whose members are written as their lower-case names."""

    @classmethod
    def parse(cls, word: object) -> Self:
        """Return the member that ``word`` names.

        Raises:
            InvalidError: no member has that name.
        """
        if isinstance(word, cls):
            return word
        if isinstance(word, str) and word in cls.__members__:
            return cls[word]
        known = ", ".join(cls.__members__)
        message = f"{word!r} is not a {cls.__name__.lower()}"
        raise InvalidError(message, hint=f"one of: {known}")

    def __str__(self) -> str:
        return self.name


class Label(_Scale):
    """An entry's classification, lowest first."""

    public = 0
    internal = 1
    confidential = 2
    restricted = 3


class Tier(_Scale):
    """How far an entry is trusted. Only a named person's approval makes one verified."""

    raw = 0
    curated = 1
    verified = 2


class Status(StrEnum):
    """Where an entry stands in its life. Only ``active`` entries compete in a search."""

    active = "active"
    superseded = "superseded"
    archived = "archived"
    demoted = "demoted"
    quarantined = "quarantined"
    erased = "erased"
