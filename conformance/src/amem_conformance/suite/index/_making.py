"""Documents to index and sessions that may read them all: what the index's tests are made of."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from amem_core.domain.entries import Document, Entry
from amem_core.domain.labels import Label
from amem_core.domain.queries import Conditions, Hit, Query, ReadFilter
from amem_core.ports.index import Index

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
DOMAIN = "main"
EVERYTHING = ReadFilter({DOMAIN: Label.restricted})


def day(number: float) -> datetime:
    """Return the instant so many days after the start."""
    return START + timedelta(days=number)


def doc(id: str, text: str = "", *, version: int = 1, known: float | None = None, **fields: Any) -> Document:
    """Return a document with ``text`` as its body; it became known on day ``known``, by default its version's."""
    given: dict[str, Any] = {
        "type": "fact",
        "domain": DOMAIN,
        "title": "untitled",
        "summary": "unsaid",
        "author": "owner",
        "created": START,
        "updated": START,
        "classification": Label.internal,
        **fields,
    }
    entry = Entry(id=f"mem-{id}", version=version, body=text, **given)
    return Document(entry, f"digest-{id}-{version}", day(version if known is None else known))


def put(index: Index, *documents: Document, through: int = 1) -> None:
    """Apply documents, each to its own domain."""
    for domain in dict.fromkeys(document.entry.domain for document in documents):
        own = [document for document in documents if document.entry.domain == domain]
        index.apply(domain, own, through=through)


def ask(index: Index, text: str, readable: ReadFilter = EVERYTHING, **query: Any) -> list[str]:
    """Return the ids found for ``text``, best first, without their prefix."""
    conditions = Conditions(**query.pop("only", {}))
    return ids(index.search(Query(text=text, readable=readable, conditions=conditions, **query)))


def listed(index: Index, readable: ReadFilter = EVERYTHING, **query: Any) -> list[str]:
    """Return the ids that a listing gives, in its order, without their prefix."""
    return ids(index.select(readable, Conditions(**query.pop("only", {})), **query))


def ids(hits: Iterable[Hit]) -> list[str]:
    """Return the hits' ids without their prefix."""
    return [hit.id.removeprefix("mem-") for hit in hits]
