"""How values look outside: domain values as JSON, and times as people and models write them.

The command line and the server both answer with these shapes, so they are made in one place.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from enum import Enum
from typing import Any, cast

from amem_core.errors import InvalidError

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]"
    r"([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?)"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})?"
)


def plain(value: object) -> Any:
    """Return ``value`` as JSON: dicts with string keys, lists, strings, numbers, booleans and None.

    A dataclass or a named tuple becomes an object with its fields in their order, a label, tier or status its word, a
    time RFC 3339 (in UTC with ``Z``, otherwise with the offset that it has), a date ``YYYY-MM-DD``. Sets
    are sorted. A float that JSON cannot write becomes the YAML word for it, such as ``.nan``.

    Raises:
        TypeError: ``value`` holds something that is none of these, such as bytes.
    """
    kind = type(value)
    if value is None or kind is str or kind is bool or kind is int:
        return value
    if kind is tuple or kind is list:
        return [plain(item) for item in value]  # type: ignore[attr-defined]  # kind says what it is
    fields = getattr(kind, "__dataclass_fields__", None) or getattr(kind, "_fields", None)
    if fields is not None:
        return {name: plain(getattr(value, name)) for name in fields}
    return _scalar(value)


def _scalar(value: object) -> Any:
    """Return what is rarer than text, numbers, lists and dataclasses as JSON."""
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, datetime):
        return moment_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _infinite(value)
    if isinstance(value, Mapping):
        return {_key(name): plain(item) for name, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in cast("set[object]", value)), key=str)
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("list[object]", value)]
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    message = f"{type(value).__name__} has no form in JSON"
    raise TypeError(message)


def _infinite(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    return ".inf" if value > 0 else "-.inf"


def _key(name: object) -> str:
    """Return the key of a mapping as text: YAML allows other keys, JSON does not."""
    if name is None:
        return "null"
    if isinstance(name, bool):
        return "true" if name else "false"
    return str(plain(name))


def moment_text(value: datetime) -> str:
    """Return an aware time as RFC 3339, with ``Z`` when its offset is nought."""
    text = value.isoformat()
    return text[:-6] + "Z" if text.endswith("+00:00") else text


def parse_day(text: str) -> date:
    """Return the date that ``text`` names as ``YYYY-MM-DD``.

    Raises:
        InvalidError: it names none.
    """
    if _DAY.fullmatch(text):
        try:
            return date.fromisoformat(text)
        except ValueError as error:
            message = f"{text!r} is no date: {error}"
            raise InvalidError(message, hint="write a day that the calendar has, such as 2026-01-31") from error
    message = f"{text!r} is not a date"
    raise InvalidError(message, hint="write it as YYYY-MM-DD, such as 2026-01-31")


def parse_moment(text: str) -> date | datetime:
    """Return the date, or the aware time with the offset given, that ``text`` names in RFC 3339.

    Raises:
        InvalidError: it names none, or it is a time without an offset from UTC.
    """
    if _DAY.fullmatch(text):
        return parse_day(text)
    found = _TIME.fullmatch(text)
    if found is None:
        message = f"{text!r} is neither a date nor a time"
        raise InvalidError(message, hint="write 2026-01-31, 2026-01-31T09:30:00Z or 2026-01-31T09:30:00+01:00")
    day, clock, offset = found.groups()
    if offset is None:
        message = f"{text!r} does not say its offset from UTC, so it could be any of 26 hours"
        raise InvalidError(message, hint=f"write {day}T{clock}Z for UTC, or {day}T{clock}+01:00")
    try:
        return datetime.fromisoformat(f"{day}T{clock}{offset.upper()}")
    except ValueError as error:
        message = f"{text!r} is no time: {error}"
        raise InvalidError(message, hint="write a time that the calendar has, such as 2026-01-31T09:30:00Z") from error


def parse_time(text: str) -> datetime:
    """Return the time in UTC that ``text`` names; a date is its first moment in UTC.

    Raises:
        InvalidError: it names none, is a time without an offset, or leaves the years 1 to 9999 in UTC.
    """
    value = parse_moment(text)
    if not isinstance(value, datetime):
        return datetime.combine(value, time.min, UTC)
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        message = f"{text!r} leaves the calendar when it is turned to UTC"
        raise InvalidError(message, hint="write a time between the years 1 and 9999") from error
