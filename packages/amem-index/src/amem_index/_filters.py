"""A session's residual and a caller's conditions as SQL over ``doc d``.

The number of variables depends on which conditions are set, never on how many rows, domains or values
there are, so the statements are few and stay prepared.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from amem_core.domain.labels import Label, Status
from amem_index._rows import line, micros, start
from amem_index.analysis import clean

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from amem_core.domain.queries import Conditions, ReadFilter

ONLY_ACTIVE = (Status.active,)
_ONE_DOMAIN = "d.shard = (SELECT number FROM shard WHERE domain = ? AND state = 1) AND d.shown <= ?"
_DOMAINS = (
    "(d.shown <= ? AND d.shard IN (SELECT number FROM shard WHERE state = 1"
    " AND domain IN (SELECT value FROM json_each(?))))"
)
_IN_LIST = " IN (SELECT value FROM json_each(?))"


class Filter:
    """Parts of a WHERE clause that all hold, and their values in order."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.values: list[Any] = []

    @property
    def sql(self) -> str:
        """The clause."""
        return " AND ".join(self._parts)

    def add(self, sql: str, *values: Any) -> None:
        """Demand that ``sql`` holds too."""
        self._parts.append(sql)
        self.values.extend(values)

    def one_of(self, column: str, values: Iterable[str | int]) -> None:
        """Demand that ``column`` is one of ``values``, unless there are none."""
        listed = [clean(value) if isinstance(value, str) else int(value) for value in values]
        if len(listed) == 1:
            self.add(f"{column} = ?", listed[0])
        elif listed:
            self.add(column + _IN_LIST, json.dumps(listed))


def filter_of(
    readable: ReadFilter,
    conditions: Conditions,
    as_of: datetime | None,
    valid_at: datetime | None,
) -> Filter | None:
    """Return what a row must meet, or None when nothing is readable, so that nothing can."""
    found = Filter()
    if not _readable(found, readable, conditions.highest_label):
        return None
    known(found, as_of)
    _in_status(found, conditions, valid_at)
    found.one_of("d.type", conditions.types)
    found.one_of("d.tier", [int(tier) for tier in conditions.tiers])
    found.one_of("d.author", conditions.authors)
    if conditions.tags:
        wanted = json.dumps([line(tag) for tag in conditions.tags])
        found.add("NOT EXISTS (SELECT 1 FROM json_each(?) WHERE instr(d.tags, value) = 0)", wanted)
    if conditions.any_tags:
        wanted = json.dumps([line(tag) for tag in conditions.any_tags])
        found.add("EXISTS (SELECT 1 FROM json_each(?) WHERE instr(d.tags, value) > 0)", wanted)
    if conditions.created_from is not None:
        found.add("d.created >= ?", micros(conditions.created_from, "created_from"))
    if conditions.created_until is not None:
        found.add("d.created < ?", micros(conditions.created_until, "created_until"))
    if conditions.always_load is not None:
        # Written out, so that the partial index over what is always loaded can serve.
        found.add(f"d.always_load = {int(conditions.always_load)}")
    if conditions.fingerprint is not None:
        found.add("d.fingerprint = ?", conditions.fingerprint)
    if conditions.source_prefix is not None:
        found.add("instr(d.sources, ?) > 0", start(conditions.source_prefix))
    if valid_at is not None:
        at = micros(valid_at, "valid_at")
        found.add("(d.valid_from IS NULL OR d.valid_from <= ?)", at)
        found.add("(d.valid_until IS NULL OR d.valid_until > ?)", at)
    return found


def _in_status(found: Filter, conditions: Conditions, valid_at: datetime | None) -> None:
    if valid_at is not None and conditions.statuses == ONLY_ACTIVE:
        found.add("(d.status = 'active' OR (d.status = 'superseded' AND d.valid_until IS NOT NULL))")
    else:
        found.one_of("d.status", [status.value for status in conditions.statuses])


def _readable(found: Filter, readable: ReadFilter, highest: Label | None) -> bool:
    ceilings: dict[int, list[str]] = {}
    for domain, label in readable.domains.items():
        ceilings.setdefault(int(label if highest is None else min(label, highest)), []).append(clean(domain))
    if not ceilings:
        return False
    if len(readable.domains) == 1:
        ((ceiling, domains),) = ceilings.items()
        found.add(_ONE_DOMAIN, domains[0], ceiling)
        return True
    groups = sorted(ceilings.items())
    found.add(
        "(" + " OR ".join([_DOMAINS] * len(groups)) + ")",
        *(value for ceiling, domains in groups for value in (ceiling, json.dumps(sorted(domains)))),
    )
    return True


def known(found: Filter, as_of: datetime | None) -> None:
    """Demand the version that was known at ``as_of``, or the newest."""
    if as_of is None:
        found.add("d.known_until IS NULL")
        return
    at = micros(as_of, "as_of")
    found.add("d.known_from <= ?", at)
    found.add("(d.known_until IS NULL OR d.known_until > ?)", at)
