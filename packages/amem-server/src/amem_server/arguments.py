"""What each tool takes: the limits that a model is told are the limits that are checked.

Unknown arguments are refused, so that a misspelt one is not silently without effect. Times and
dates stay strings in the schema, because models write them in several forms; they are read here.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

LONGEST_BODY = 1_000_000
LONGEST_LEASE_SECONDS = 7 * 24 * 3600

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def _read_time(value: object) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            time = None
        if time is not None and time.tzinfo is None and _DATE.fullmatch(value):
            time = time.replace(tzinfo=UTC)
        if time is not None and time.tzinfo is not None:
            return time
    message = "write a time with Z or an offset, as in 2026-11-30T12:00:00Z, or a date, which is midnight UTC"
    raise ValueError(message)


def _read_day(value: object) -> date | None:
    if value is None:
        return None
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    message = "write a date as in 2026-11-30"
    raise ValueError(message)


def _read_day_or_time(value: object) -> date | datetime | None:
    if isinstance(value, str) and _DATE.fullmatch(value):
        return _read_day(value)
    return _read_time(value)


def _text_schema(description: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "description": description})


Moment = Annotated[datetime | None, BeforeValidator(_read_time)]
Day = Annotated[date | None, BeforeValidator(_read_day)]
DayOrMoment = Annotated[date | datetime | None, BeforeValidator(_read_day_or_time)]
LabelName = Literal["public", "internal", "confidential", "restricted"]
Name = Annotated[str, Field(min_length=1, max_length=200)]
EntryId = Annotated[str, Field(min_length=5, max_length=64)]
Domain = Annotated[
    str | None,
    Field(max_length=64, description="The domain. Leave it out to use every domain that this session holds."),
]
OneDomain = Annotated[
    str | None,
    Field(max_length=64, description="The domain. May be left out when this session holds only one."),
]
Lease = Annotated[
    float,
    Field(ge=1, le=LONGEST_LEASE_SECONDS, description="How long to hold the task, in seconds, unless renewed."),
]
Fence = Annotated[int, Field(ge=1, description="The fence that the claim returned. An old one is refused.")]
TaskId = Annotated[EntryId, Field(description="The task's id, as in mem-01k....")]


class Arguments(BaseModel):
    """The arguments of one tool."""

    model_config = ConfigDict(extra="forbid", frozen=True)


AsOf = Annotated[Moment, _text_schema("Answer from what was known at this time (RFC 3339 with offset, or a date).")]
ValidAt = Annotated[
    Moment, _text_schema("Answer from what was true in the world at this time (RFC 3339 with offset, or a date).")
]


class Search(Arguments):
    """Arguments of ``search``."""

    query: Annotated[str, Field(max_length=10_000, description="The words to look for, in plain text. No syntax.")]
    domain: Domain = None
    types: Annotated[
        list[Name],
        Field(max_length=20, description="Only entries of these types, such as decision, fact, handoff, workflow."),
    ] = []
    filter: Annotated[
        str | None,
        Field(
            max_length=2_000,
            description="Conditions, such as: type = decision and tag in (a, b) and created >= 2026-01-01",
        ),
    ] = None
    limit: Annotated[int, Field(ge=1, le=100, description="The most hits to return.")] = 10
    depth: Annotated[
        Literal["summaries", "sections"],
        Field(description="summaries for cards, sections for the passages that answer as well."),
    ] = "summaries"
    as_of: AsOf = None
    valid_at: ValidAt = None


class Get(Arguments):
    """Arguments of ``get``."""

    id: Annotated[EntryId, Field(description="The entry's id, as in mem-01k.... Ids come from search, recall and t0.")]
    version: Annotated[int | None, Field(ge=1, description="An earlier version. Leave it out for the current.")] = None
    as_of: AsOf = None
    valid_at: ValidAt = None


class Reject(Arguments):
    """Arguments of ``reject``."""

    id: Annotated[EntryId, Field(description="The id of the entry that states what does not hold.")]
    reason: Annotated[
        str, Field(min_length=1, max_length=2_000, description="Why it does not hold. Whoever states it again is told.")
    ]


class Write(Arguments):
    """Arguments of ``write``."""

    type: Annotated[
        Name,
        Field(
            description="handoff, decision, fact, preference, workflow, fix, reference, idea or artifact,"
            " or another short lower-case word."
        ),
    ]
    title: Annotated[str, Field(min_length=1, max_length=1_000, description="One line.")]
    summary: Annotated[
        str,
        Field(
            min_length=1,
            max_length=10_000,
            description="One to three sentences that stand alone: this is what a later search shows.",
        ),
    ]
    body: Annotated[str, Field(max_length=LONGEST_BODY, description="The details, as Markdown.")] = ""
    domain: OneDomain = None
    id: Annotated[
        EntryId | None,
        Field(
            description="Write a new version of this entry. It replaces title, summary, body, source, tags and all"
            " other fields, so give them all. Leave it out to write a new entry."
        ),
    ] = None
    label: Annotated[
        LabelName | None,
        Field(description="The wished classification. It is raised to what this session has read."),
    ] = None
    source: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=2_000)]],
        Field(max_length=100, description="What a reader can check, as file:, https:, mem-..., github:."),
    ] = []
    supersedes: Annotated[
        list[EntryId], Field(max_length=100, description="Ids of entries that this one replaces for good.")
    ] = []
    derived_from: Annotated[
        list[EntryId], Field(max_length=100, description="Ids of entries that this one was concluded from.")
    ] = []
    tags: Annotated[list[Name], Field(max_length=50, description="Words to filter by.")] = []
    aliases: Annotated[list[Name], Field(max_length=50, description="Other words that should find it.")] = []
    confidence: Annotated[float | None, Field(ge=0, le=1, description="How sure it is, 0 to 1.")] = None
    valid_from: Annotated[
        DayOrMoment, _text_schema("From when it is true in the world: a date, or RFC 3339 with offset.")
    ] = None
    valid_until: Annotated[
        DayOrMoment, _text_schema("Until when it is true in the world: a date, or RFC 3339 with offset.")
    ] = None
    review_by: Annotated[Day, _text_schema("The date after which a reader is told to check it again.")] = None
    always_load: Annotated[bool, Field(description="Ask for a place among the pointers of t0.")] = False


class Recall(Arguments):
    """Arguments of ``recall``."""

    question: Annotated[str, Field(min_length=1, max_length=10_000, description="The question, in plain words.")]
    budget: Annotated[int, Field(ge=100, le=100_000, description="The most tokens that the answer may take.")] = 1500
    domain: Domain = None
    limit: Annotated[int, Field(ge=1, le=100, description="The most entries to consider.")] = 20
    as_of: AsOf = None
    valid_at: ValidAt = None


class FirstRead(Arguments):
    """Arguments of ``t0``."""

    domain: Domain = None
    as_of: AsOf = None
    valid_at: ValidAt = None


class CreateTask(Arguments):
    """Arguments of ``create_task``."""

    title: Annotated[str, Field(min_length=1, max_length=1_000, description="What is to be done, in one line.")]
    summary: Annotated[
        str, Field(min_length=1, max_length=10_000, description="What done means, for someone who was not here.")
    ]
    body: Annotated[str, Field(max_length=LONGEST_BODY, description="Details, as Markdown.")] = ""
    domain: OneDomain = None
    priority: Annotated[int, Field(ge=0, le=1000, description="Lower is claimed first.")] = 100
    origin: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=200,
            description="Where it comes from: task:ID (a part of that task), continues:ID or github:OWNER/REPO#N.",
        ),
    ] = None
    upstream_event: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=500,
            description="What in the origin caused it; goes with origin. The same pair filed twice is one task.",
        ),
    ] = None
    label: Annotated[
        LabelName | None,
        Field(description="The wished classification. It is raised to what this session has read."),
    ] = None


class ClaimNext(Arguments):
    """Arguments of ``claim_next``."""

    domain: Domain = None
    lease_seconds: Lease = 900.0
    limit: Annotated[int, Field(ge=1, le=100, description="The most tasks to claim.")] = 1


class Claim(Arguments):
    """Arguments of ``claim``."""

    id: TaskId
    lease_seconds: Lease = 900.0


class Heartbeat(Arguments):
    """Arguments of ``heartbeat``."""

    id: TaskId
    fence: Fence
    lease_seconds: Lease = 900.0


class Complete(Arguments):
    """Arguments of ``complete``."""

    id: TaskId
    fence: Fence
    result: Annotated[
        str | None,
        Field(max_length=LONGEST_BODY, description="What came of it, as Markdown. Kept as a handoff entry."),
    ] = None


class Release(Arguments):
    """Arguments of ``release``."""

    id: TaskId
    fence: Fence
    note: Annotated[
        str | None,
        Field(max_length=LONGEST_BODY, description="What the next claimant must know, as Markdown. Kept as a handoff."),
    ] = None
