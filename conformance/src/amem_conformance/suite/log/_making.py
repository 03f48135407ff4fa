"""Events to append, small and distinct."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from amem_core.domain.events import Event, NewEvent
from amem_core.ports.log import Log

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def new(number: int, subject: str = "", data: Mapping[str, Any] | None = None) -> NewEvent:
    """Return an event that is told apart by its number."""
    return NewEvent(
        kind="entry.written",
        subject=subject or f"mem-{number}",
        actor="owner",
        time=START + timedelta(microseconds=number),
        data={"version": number} if data is None else data,
    )


def append(log: Log, domain: str, *events: NewEvent) -> list[Event]:
    """Append the events one by one, each by a writer of its own."""
    placed: list[Event] = []
    for event in events:
        with log.writer(domain) as writer:
            placed += writer.append([event])
    return placed


def subjects(log: Log, domain: str, after: int = 0) -> list[str]:
    """Return the subjects of what is read."""
    return [event.subject for event in log.read(domain, after)]


def plain(event: Event) -> NewEvent:
    """Return an event without its place."""
    return NewEvent(event.kind, event.subject, event.actor, event.time, dict(event.data))
