"""What each tool answers: an object of a declared schema, in which everything that was stored is fenced.

Hosts put structured content into a model's context as well as text, so titles, summaries, bodies,
tags and sources stand in neither outside a fence: they are in ``text``. What stands beside it are
ids, figures, dates and words of amem's own. An absent value is an absent key.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from pydantic import WithJsonSchema
from typing_extensions import TypedDict

from amem_core.domain.labels import Status
from amem_core.services.fencing import fence, fence_hits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from amem_core.domain.entries import Entry
    from amem_core.domain.queries import Hit, SearchResult
    from amem_core.domain.results import T0, Pack, Reading, Rejected, TaskView, Written
    from amem_core.domain.tasks import Task

_PLAIN = re.compile(r"[\w.:/#@+-]{1,200}", re.ASCII)


# Clients check an answer against its schema, and the SDK's own takes a fifth of the call to walk the declared
# fields of ten hits: so a hit's fields are named here and not declared one by one.
Card = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "description": "One hit. version is a number, the rest are strings: also status when it is not active,"
            " and valid_from, valid_until, review_by and superseded_by when they are set. Its words are in text.",
            "required": ["id", "version", "domain", "type", "label", "tier", "updated"],
        }
    ),
]


class Found(TypedDict):
    """What ``search`` answers. ``text`` holds titles, summaries and, for depth sections, passages, fenced."""

    hits: list[Card]
    text: str
    domains: list[str]
    masks: list[str]
    notices: list[str]


class Read(TypedDict):
    """What ``get`` answers."""

    id: str
    version: int
    current_version: int
    domain: str
    type: str
    label: str
    tier: str
    status: str
    author: str
    created: str
    updated: str
    digest: str
    supersedes: list[str]
    derived_from: list[str]
    masks: list[str]
    notices: list[str]
    text: str
    confidence: NotRequired[float]
    valid_from: NotRequired[str]
    valid_until: NotRequired[str]
    review_by: NotRequired[str]
    superseded_by: NotRequired[str]


class WrittenEntry(TypedDict):
    """What ``write`` answers. ``changed`` is false when the same text was there already."""

    id: str
    version: int
    domain: str
    label: str
    digest: str
    changed: bool
    superseded: list[str]
    notices: list[str]


class RejectedEntry(TypedDict):
    """What ``reject`` answers. ``flagged`` entries were derived from it, or state it too: they are due for review."""

    id: str
    version: int
    domain: str
    digest: str
    reason: str
    flagged: list[str]
    notices: list[str]


class Recalled(TypedDict):
    """What ``recall`` answers: ids of what is in ``text`` and of what did not fit."""

    text: str
    tokens: int
    budget: int
    entries: list[str]
    left_out: list[str]
    masks: list[str]
    notices: list[str]


class First(TypedDict):
    """What ``t0`` answers. ``cut`` counts what did not fit."""

    text: str
    tokens: int
    domains: list[str]
    handoffs: list[str]
    decisions: list[str]
    pointers: list[str]
    cut: int
    masks: list[str]


class TaskState(TypedDict):
    """The ledger's state of a task."""

    id: str
    domain: str
    label: str
    status: str
    priority: int
    fence: int
    created: str
    updated: str
    origin: NotRequired[str]
    holder: NotRequired[str]
    lease_until: NotRequired[str]
    handoff: NotRequired[str]


class TaskCard(TaskState):
    """A task with its text, fenced."""

    text: str
    notices: list[str]


class CreatedTask(TaskCard):
    """What ``create_task`` answers. ``filed`` is false when the same filing was there before."""

    filed: bool


class ClaimedTasks(TypedDict):
    """What ``claim_next`` answers; empty when no task is ready."""

    tasks: list[TaskCard]


def found(result: SearchResult) -> dict[str, Any]:
    """Return the answer of ``search``."""
    return {
        "hits": [_card(hit) for hit in result.hits],
        "text": _cards(result),
        "domains": list(result.domains),
        "masks": list(result.masks),
        "notices": list(result.notices),
    }


def read(reading: Reading) -> dict[str, Any]:
    """Return the answer of ``get``."""
    entry = reading.entry
    answer: dict[str, Any] = {
        "id": entry.id,
        "version": entry.version,
        "current_version": reading.current_version,
        "domain": entry.domain,
        "type": entry.type,
        "label": str(entry.classification),
        "tier": str(entry.trust_tier),
        "status": str(entry.status),
        "author": entry.author,
        "created": moment(entry.created),
        "updated": moment(entry.updated),
        "digest": reading.digest,
        "supersedes": list(entry.supersedes),
        "derived_from": list(entry.derived_from),
        "masks": list(reading.masks),
        "notices": list(reading.notices),
        "text": "\n".join([reading.fenced, *_fields(entry)]),
        **_dates(entry),
    }
    if entry.confidence is not None:
        answer["confidence"] = entry.confidence
    return answer


def written(done: Written) -> dict[str, Any]:
    """Return the answer of ``write``."""
    return {
        "id": done.id,
        "version": done.version,
        "domain": done.domain,
        "label": str(done.label),
        "digest": done.digest,
        "changed": done.changed,
        "superseded": list(done.superseded),
        "notices": list(done.notices),
    }


def rejected(done: Rejected) -> dict[str, Any]:
    """Return the answer of ``reject``."""
    return {
        "id": done.id,
        "version": done.version,
        "domain": done.domain,
        "digest": done.digest,
        "reason": done.reason,
        "flagged": list(done.flagged),
        "notices": list(done.notices),
    }


def recalled(pack: Pack) -> dict[str, Any]:
    """Return the answer of ``recall``."""
    return {
        "text": pack.text,
        "tokens": pack.tokens,
        "budget": pack.budget,
        "entries": _ids(pack.hits),
        "left_out": _ids(pack.left_out),
        "masks": list(pack.masks),
        "notices": list(pack.notices),
    }


def first(answer: T0) -> dict[str, Any]:
    """Return the answer of ``t0``."""
    return {
        "text": answer.text,
        "tokens": answer.tokens,
        "domains": list(answer.domains),
        "handoffs": _ids(answer.handoffs),
        "decisions": _ids(answer.decisions),
        "pointers": _ids(answer.pointers),
        "cut": answer.cut,
        "masks": list(answer.masks),
    }


def task_state(task: Task) -> dict[str, Any]:
    """Return the ledger's state of a task."""
    state: dict[str, Any] = {
        "id": task.id,
        "domain": task.domain,
        "label": str(task.label),
        "status": str(task.status),
        "priority": task.priority,
        "fence": task.fence,
        "created": moment(task.created),
        "updated": moment(task.updated),
    }
    # An origin is given by whoever filed the task: one that is prose stays out of the context.
    if task.origin is not None and _PLAIN.fullmatch(task.origin):
        state["origin"] = task.origin
    if task.holder is not None:
        state["holder"] = task.holder
    if task.lease_until is not None:
        state["lease_until"] = moment(task.lease_until)
    if task.handoff is not None:
        state["handoff"] = task.handoff
    return state


def task_card(view: TaskView) -> dict[str, Any]:
    """Return a task with its text, fenced."""
    return {**task_state(view.task), "text": view.fenced, "notices": list(view.notices)}


def moment(time: datetime) -> str:
    """Return a time as RFC 3339 in the form that the record uses."""
    return time.isoformat().replace("+00:00", "Z")


def _card(hit: Hit) -> dict[str, Any]:
    card = {
        "id": hit.id,
        "version": hit.version,
        "domain": hit.domain,
        "type": hit.type,
        "label": str(hit.label),
        "tier": str(hit.tier),
        "updated": moment(hit.updated),
        **_dates(hit),
    }
    if hit.status is not Status.active:
        card["status"] = str(hit.status)
    return card


def _cards(result: SearchResult) -> str:
    """Return the hits' words: one block of lines, or with passages one block for each hit."""
    if not result.hits:
        return ""
    if result.sections is None:
        return fence_hits(result.hits)
    return "\n\n".join(_passage(hit, result.sections.get(hit.id, "")) for hit in result.hits)


def _passage(hit: Hit, passages: str) -> str:
    marks = {
        "id": hit.id,
        "date": hit.updated.date().isoformat(),
        "label": str(hit.label),
        "tier": str(hit.tier),
        "source": ",".join(hit.source),
    }
    return fence(marks, f"{hit.title}\n{hit.summary}\n\n{passages}".rstrip())


def _fields(entry: Entry) -> list[str]:
    """Return the fields that a new version must repeat and that the fenced text does not show, fenced too."""
    named = {"source": entry.source, "tags": entry.tags, "aliases": entry.aliases}
    lines = [f"{name}: {', '.join(values)}" for name, values in named.items() if values]
    if entry.always_load:
        lines.append("always_load: true")
    return [fence({"id": entry.id, "part": "fields"}, "\n".join(lines))] if lines else []


def _dates(card: Entry | Hit) -> dict[str, str]:
    known: dict[str, str] = {}
    if card.valid_from is not None:
        known["valid_from"] = _day_or_moment(card.valid_from)
    if card.valid_until is not None:
        known["valid_until"] = _day_or_moment(card.valid_until)
    if card.review_by is not None:
        known["review_by"] = card.review_by.isoformat()
    if card.superseded_by is not None:
        known["superseded_by"] = card.superseded_by
    return known


def _day_or_moment(value: date | datetime) -> str:
    return moment(value) if isinstance(value, datetime) else value.isoformat()


def _ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.id for hit in hits]
