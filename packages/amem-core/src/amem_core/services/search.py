"""Finding entries by their words, summaries first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.domain.queries import Conditions, Query, SearchResult
from amem_core.errors import InvalidError
from amem_core.services.looking import alarms_of
from amem_core.services.notices import notices_of
from amem_core.services.reach import domains

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from amem_core.domain.queries import Hit
    from amem_core.session import Session

HIGHEST_LIMIT = 100
LONGEST_QUERY = 10_000
SECTION_TOKENS = 400


def search(
    session: Session,
    text: str,
    *,
    domain: str | None,
    types: Sequence[str],
    filter: str | None,
    limit: int,
    depth: str,
    as_of: datetime | None,
    valid_at: datetime | None,
) -> SearchResult:
    """Return the best hits that the session may read; see ``Session.search``."""
    _check(text, limit, depth)
    masks: tuple[str, ...] = ()
    if as_of is not None or valid_at is not None:
        from amem_core.services.masks import masks_of

        masks = masks_of(as_of, valid_at)
    readable = domains(session, domain)
    query = Query(
        text=text,
        readable=readable,
        conditions=conditions_of(filter, types),
        limit=limit,
        as_of=as_of,
        valid_at=valid_at,
    )
    hits = tuple(session.runtime.index.search(query))
    session.served([hit.label for hit in hits])
    now = session.runtime.clock.now()
    notices = alarms_of(session.runtime, readable.domains)
    notices += [notice for hit in hits for notice in notices_of(hit, now)]
    if not hits:
        notices.extend(_nothing_found(text, query, domain))
    return SearchResult(
        query=text,
        hits=hits,
        domains=tuple(sorted(readable.domains)),
        masks=masks,
        notices=tuple(notices),
        sections=_sections(session, text, hits, as_of) if depth == "sections" else None,
    )


def conditions_of(filter: str | None, types: Sequence[str] = ()) -> Conditions:
    """Return the conditions that a filter expression and a list of types come to.

    Raises:
        InvalidError: the expression is wrong (the message says where), or a type cannot be one.
    """
    conditions = Conditions()
    if filter:
        from amem_core.services.filters import parse_filter

        conditions = parse_filter(filter)
    if types:
        from amem_core.domain.names import check_type

        conditions = conditions._replace(types=(*conditions.types, *(check_type(name) for name in types)))
    return conditions


def _check(text: str, limit: int, depth: str) -> None:
    if len(text) > LONGEST_QUERY:
        message = f"the query has {len(text)} characters"
        raise InvalidError(message, hint=f"ask in at most {LONGEST_QUERY}")
    if not 1 <= limit <= HIGHEST_LIMIT:
        message = f"limit {limit} is out of range"
        raise InvalidError(message, hint=f"a limit is 1 to {HIGHEST_LIMIT}")
    if depth not in {"summaries", "sections"}:
        message = f"{depth!r} is no depth"
        raise InvalidError(message, hint="a depth is summaries or sections")


def _nothing_found(text: str, query: Query, domain: str | None) -> list[str]:
    if not any(character.isalnum() for character in text):
        return ["searched, and found nothing: the query has no word in it; ask in words"]
    found = ["searched, and found nothing"]
    if query.conditions != Conditions():
        found.append("try without the filter")
    if domain is not None:
        found.append("try without the domain")
    if query.as_of is not None or query.valid_at is not None:
        found.append("try another time, or none")
    if not found[1:]:
        found.append("try fewer or other words; if you learn the answer, write it")
    return ["; ".join(found)]


def _sections(session: Session, text: str, hits: Sequence[Hit], as_of: datetime | None) -> dict[str, str]:
    from amem_core.errors import AmemError
    from amem_core.services.passages import best_passages
    from amem_core.services.reading import get

    sections: dict[str, str] = {}
    for hit in hits:
        try:
            reading = get(session, hit.id, version=hit.version if as_of is None else None, as_of=as_of)
        except AmemError as exc:
            sections[hit.id] = f"(not served: {exc})"
            continue
        sections[hit.id] = best_passages(reading.entry.body, text, SECTION_TOKENS)
    return sections
