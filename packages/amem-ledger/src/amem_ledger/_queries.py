"""The statements of the SQLite ledger. Each is one step; the triggers of ``_schema`` add its event."""

# ruff: noqa: S608  (statements are put together from this module's own text; what callers give is bound)
from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from amem_core.domain.task_events import CLAIMED
from amem_core.domain.tasks import TaskStatus
from amem_ledger._rows import COLUMNS, NUMBERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amem_core.domain.labels import Label

# More domains than this are claimed from with one sorted scan: SQLite joins at most 500 selects.
_MOST_DOMAINS = 100

FILE = f"INSERT INTO task ({COLUMNS}, kind, actor) VALUES ({', '.join('?' * 16)}) ON CONFLICT DO NOTHING RETURNING 1"
BY_ID = f"SELECT {COLUMNS} FROM task WHERE id = ?"
BY_FILING = f"SELECT {COLUMNS} FROM task WHERE domain = ? AND origin = ? AND upstream_event = ?"
WITH_LEASE = f"SELECT {COLUMNS}, renewed FROM task WHERE id = ?"

_TAKE = (
    "UPDATE task SET status = 1, holder = ?, fence = fence + 1, lease_until = ?, renewed = ?, updated = ?,"
    f" revision = revision + 1, kind = '{CLAIMED}', actor = ? WHERE "
)
# The latest renewal before this one: the claim itself sees a clock that has jumped back.
_TAKEN = f" RETURNING {COLUMNS}, (SELECT renewed FROM domain WHERE name = task.domain)"
CLAIM = f"{_TAKE}id = ? AND (status = 0 OR (status = 1 AND lease_until <= ?)){_TAKEN}"

_OF_HOLDER = f" WHERE id = ? AND fence = ? AND status = 1 RETURNING {COLUMNS}"
RENEW = (
    "UPDATE task SET lease_until = ?, renewed = ?, updated = ?, revision = revision + 1, kind = ?, actor = holder"
    + _OF_HOLDER
)
COMPLETE = (
    "UPDATE task SET status = 2, lease_until = NULL, renewed = NULL, handoff = coalesce(?, handoff), updated = ?,"
    " revision = revision + 1, kind = ?, actor = ?" + _OF_HOLDER
)
RELEASE = (
    "UPDATE task SET status = 0, holder = NULL, lease_until = NULL, renewed = NULL, handoff = coalesce(?, handoff),"
    " updated = ?, revision = revision + 1, kind = ?, actor = ?" + _OF_HOLDER
)
RELABEL = (
    "UPDATE task SET label = ?, updated = ?, revision = revision + 1, kind = ?, actor = ? WHERE id = ?"
    f" RETURNING {COLUMNS}"
)

LATEST_RENEWAL = "SELECT coalesce(max(renewed), '') FROM domain"
JUMPED = "SELECT 1 FROM domain WHERE name = ? AND renewed > ?"
BEGAN_LATER = (
    "SELECT id, renewed, lease_until FROM task"
    " WHERE status = 1 AND domain = ? AND lease_until > ? AND renewed > ? ORDER BY id"
)
REBASE = (
    "UPDATE task SET lease_until = ?, renewed = ?, updated = ?, revision = revision + 1, kind = ?, actor = ?"
    " WHERE id = ?"
)
NO_LATER = "UPDATE domain SET renewed = ? WHERE name = ?"

_OUTBOX = f"SELECT number, kind, actor, {COLUMNS} FROM outbox WHERE domain = ? ORDER BY number"
OUTGOING = f"{_OUTBOX} LIMIT ?"
WHOLE_OUTBOX = _OUTBOX
SENT = "DELETE FROM outbox WHERE domain = ? AND number = ?"
# A trigger empties the outbox up to `relayed`. A number that was not given is one of a file that was set aside since.
RELAYED = (
    "UPDATE domain SET relayed = max(relayed, ?3), watermark = max(watermark, ?2) WHERE name = ?1 AND number >= ?3"
)
WATERMARK = "SELECT watermark FROM domain WHERE name = ?"
FOLLOWED = (
    "INSERT INTO domain (name, watermark, renewed) VALUES (?, ?, ?) ON CONFLICT (name)"
    " DO UPDATE SET watermark = max(watermark, excluded.watermark), renewed = max(renewed, excluded.renewed)"
)
_KEPT = [name for name in f"{COLUMNS}, renewed".split(", ") if name != "id"]
KEEP = (
    f"INSERT INTO task ({COLUMNS}, renewed) VALUES ({', '.join('?' * 15)}) ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _KEPT)
    + ", kind = NULL, actor = NULL"
)
# After FORGET nothing of the domain is left to conflict with; an id that another domain has still does.
FORGET = "DELETE FROM task WHERE domain = ?"
REMAKE = f"INSERT INTO task ({COLUMNS}, renewed) VALUES ({', '.join('?' * 15)})"
ELSEWHERE = "SELECT domain FROM task WHERE id = ? AND domain <> ?"
REBUILT = (
    "INSERT INTO domain (name, watermark, renewed) VALUES (?, ?, ?) ON CONFLICT (name)"
    " DO UPDATE SET watermark = excluded.watermark, renewed = excluded.renewed"
)


def claim_next(domains: Mapping[str, Label], moment: str, limit: int) -> tuple[str, list[Any]]:
    """Return the claim of up to ``limit`` tasks, and the values behind those of its SET."""
    values: list[Any] = []
    if len(domains) > _MOST_DOMAINS:
        readable, named = _readable(domains)
        return _claim_from_many(readable), [moment, *named, limit]
    for domain, highest in domains.items():
        label = int(highest)
        values += (domain, label, limit, domain, moment, label)
    values.append(limit)
    return _claim_from(len(domains), "=" if limit == 1 else "IN"), values


@lru_cache(maxsize=2 * _MOST_DOMAINS)
def _claim_from(count: int, match: str) -> str:
    # `=` looks at one row without a list of them.
    # Each domain's first ready tasks and its run-out leases, by two partial indexes; then the first of them all.
    each = (
        "SELECT * FROM (SELECT priority, id FROM task WHERE status = 0 AND domain = ? AND label <= ?"
        " ORDER BY priority, id LIMIT ?)"
        " UNION ALL SELECT priority, id FROM task WHERE status = 1 AND domain = ? AND lease_until <= ? AND label <= ?"
    )
    found = " UNION ALL ".join([each] * count)
    return f"{_TAKE}id {match} (SELECT id FROM ({found}) ORDER BY priority, id LIMIT ?){_TAKEN}"


@lru_cache(maxsize=4)
def _claim_from_many(readable: str) -> str:
    found = f"SELECT id FROM task WHERE (status = 0 OR (status = 1 AND lease_until <= ?)) AND {readable}"
    return f"{_TAKE}id IN ({found} ORDER BY priority, id LIMIT ?){_TAKEN}"


def tasks(
    domains: Mapping[str, Label],
    moment: str,
    *,
    statuses: Sequence[TaskStatus],
    origin: str | None,
    after: str | None,
    limit: int,
) -> tuple[str, list[Any]]:
    """Return the listing and its values."""
    readable, values = _readable(domains)
    wanted = [readable]
    if statuses and set(statuses) != set(NUMBERS):
        shown = {
            TaskStatus.ready: ("status = 0 OR (status = 1 AND lease_until <= ?)", (moment,)),
            TaskStatus.claimed: ("(status = 1 AND lease_until > ?)", (moment,)),
            TaskStatus.completed: ("status = 2", ()),
        }
        chosen = [shown[status] for status in dict.fromkeys(statuses)]
        wanted.append(f"({' OR '.join(text for text, _ in chosen)})")
        for _, given in chosen:
            values += given
    if origin is not None:
        wanted.append("origin = ?")
        values.append(origin)
    if after is not None:
        wanted.append("id > ?")
        values.append(after)
    values.append(limit)
    return f"SELECT {COLUMNS} FROM task WHERE {' AND '.join(wanted)} ORDER BY id LIMIT ?", values


def _readable(domains: Mapping[str, Label]) -> tuple[str, list[Any]]:
    """Return the condition that a row is in one of ``domains`` under its label, and its values."""
    by_label: dict[int, list[str]] = {}
    for domain, highest in domains.items():
        by_label.setdefault(int(highest), []).append(domain)
    values: list[Any] = []
    for label, names in by_label.items():
        values += (*names, label)
    text = " OR ".join(f"(domain IN ({', '.join('?' * len(names))}) AND label <= ?)" for names in by_label.values())
    return f"({text})", values
