"""Times and dates of the formats: RFC 3339, never without an offset."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

from amem_core.errors import InvalidError

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
    r"(?P<offset>[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?"
)
_EXAMPLE = "write it as 2026-11-30T12:00:00Z or 2026-11-30T13:00:00+01:00"


def render_time(time: datetime) -> str:
    """Return a time with the offset that it carries, ``Z`` for UTC, and with a fraction when it has one.

    Raises:
        InvalidError: it carries no offset, or one that is not of whole minutes.
    """
    offset = time.utcoffset()
    if offset is None:
        message = f"the time {time.isoformat()} has no offset"
        raise InvalidError(message, hint=_EXAMPLE)
    if not offset:
        return time.replace(tzinfo=None).isoformat() + "Z"
    if offset.seconds % 60 or offset.microseconds:
        message = f"the time {time.isoformat()} has an offset that is not of whole minutes"
        raise InvalidError(message, hint=_EXAMPLE)
    return time.isoformat()


def render_utc(time: datetime) -> str:
    """Return a time in UTC.

    Raises:
        InvalidError: it carries no offset, or lies outside the years that UTC can express.
    """
    return render_time(to_utc(time))


def to_utc(time: datetime) -> datetime:
    """Return the same instant in UTC.

    Raises:
        InvalidError: it carries no offset, or lies outside the years that UTC can express.
    """
    if time.tzinfo is UTC:
        return time
    if time.utcoffset() is None:
        message = f"the time {time.isoformat()} has no offset"
        raise InvalidError(message, hint=_EXAMPLE)
    try:
        return time.astimezone(UTC)
    except OverflowError as exc:
        message = f"the time {time.isoformat()} lies outside the years 1 to 9999 in UTC"
        raise InvalidError(message, hint="give a time that UTC can express") from exc


def parse_time(text: str) -> datetime:
    """Return a time with its offset. Digits of a fraction beyond the sixth are dropped.

    Raises:
        InvalidError: it is none, or has no offset.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        message = f"{text[:60]!r} is not a time"
        raise InvalidError(message, hint=_EXAMPLE)
    if found["offset"] is None:
        message = f"the time {text!r} has no offset, so nobody can tell which instant it is"
        raise InvalidError(message, hint=_EXAMPLE)
    try:
        return datetime.fromisoformat(text.upper().replace(" ", "T"))
    except ValueError as exc:
        message = f"the time {text!r} does not exist: {exc}"
        raise InvalidError(message, hint=_EXAMPLE) from exc


def parse_date(text: str) -> date:
    """Return a date.

    Raises:
        InvalidError: it is none.
    """
    if _DATE.fullmatch(text):
        try:
            return date.fromisoformat(text)
        except ValueError as exc:
            message = f"the date {text!r} does not exist: {exc}"
            raise InvalidError(message, hint="write it as 2026-11-30") from exc
    message = f"{text[:60]!r} is not a date"
    raise InvalidError(message, hint="write it as 2026-11-30")


def parse_when(text: str) -> date | datetime:
    """Return a date or a time with its offset.

    Raises:
        InvalidError: it is neither.
    """
    return parse_date(text) if _DATE.fullmatch(text) else parse_time(text)


def parse_instant(text: str) -> datetime:
    """Return an instant in UTC; a date alone is its first moment in UTC.

    Raises:
        InvalidError: it is neither a date nor a time with an offset.
    """
    when = parse_when(text)
    return to_utc(when) if isinstance(when, datetime) else datetime(when.year, when.month, when.day, tzinfo=UTC)


def render_when(when: date | datetime) -> str:
    """Return a date, or a time with the offset that it carries.

    Raises:
        InvalidError: it is a time without a proper offset.
    """
    return render_time(when) if isinstance(when, datetime) else when.isoformat()
