"""When a span of time in the world begins and ends; the one reading of ``valid_from`` and ``valid_until``."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone

# Its last hour is the first of the next day in UTC: so the end of the last day that a date can name can be said too.
_AN_HOUR_BEHIND = timezone(timedelta(hours=-1))


def first_moment(when: date | datetime) -> datetime:
    """Return the instant at which something that is true from ``when`` begins to be; a date begins in UTC."""
    return when if isinstance(when, datetime) else datetime.combine(when, time(), UTC)


def end_of(when: date | datetime) -> datetime:
    """Return the first instant at which something that is true until ``when`` is true no longer; a date lasts to its end."""
    return when if isinstance(when, datetime) else datetime.combine(when, time(23), _AN_HOUR_BEHIND)
