"""The rules for an entry's fields: at the gate, where a caller is told, and before bytes are made.

``check_form`` is what every entry keeps, because its bytes could not be read back otherwise.
``check_entry`` adds what is asked of new entries only, so that a file made by hand or elsewhere is
still taken as it is.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from amem_core.domain.labels import Label, Status, Tier
from amem_core.domain.names import check_author, check_domain, check_entry_id, check_type
from amem_core.domain.spans import first_moment
from amem_core.errors import InvalidError
from amem_core.format.times import render_time, to_utc

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amem_core.domain.entries import Entry

MAX_LINE = 4000
"""How many characters a title, a summary, a source, a tag or an alias may have."""
MAX_BODY = 16 * 1024 * 1024
"""How many bytes of UTF-8 a body may have."""
MAX_VERSION = 999_999_999

FIELDS = (
    "id",
    "version",
    "type",
    "domain",
    "title",
    "summary",
    "author",
    "created",
    "updated",
    "valid_from",
    "valid_until",
    "source",
    "confidence",
    "trust_tier",
    "classification",
    "status",
    "review_by",
    "supersedes",
    "superseded_by",
    "derived_from",
    "verified",
    "rejected",
    "tags",
    "aliases",
    "always_load",
    "lifecycle",
)
"""The fields that the format knows, in the order in which they are written."""

_KNOWN = frozenset(FIELDS)
_BREAKS = re.compile(r"[\n\r\x0b\x0c\x85\u2028\u2029]")
_NO_TEXT = re.compile(r"[\x00\ud800-\udfff]")
_NO_LINE = re.compile(r"[\n\r\x0b\x0c\x85\u2028\u2029\x00\ud800-\udfff]")
_SOURCE = re.compile(
    r"(?:file:|https?://|transcript:)\S.*|github:[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)?(?:[#@/:]\S*)?", re.IGNORECASE
)


def clean_text(value: object, field: str) -> str:
    """Return ``value`` as it may be kept in ``field``; the one rule for text at the gate.

    NUL and lone surrogates are refused. In a body, CRLF becomes LF and all else stays. Every other
    field is one line: a line break and the white space around it become one space, and white space
    at both ends goes.

    Raises:
        InvalidError: it is no text, holds what is no text, or is too long; ``field`` and, where
            there is one, ``position`` (in characters, from 0) in the context.
    """
    if not isinstance(value, str):
        message = f"{field} must be text, not {type(value).__name__}"
        raise InvalidError(message, hint=f"give {field} as a string", field=field)
    check_text(value, field)
    if field == "body":
        text = value.replace("\r\n", "\n")
        check_body(text)
        return text
    text = one_line(value).strip()
    _check_length(text, field)
    return text


def one_line(text: str) -> str:
    """Return ``text`` with every line break, and the white space around it, as one space."""
    if _is_simple(text) or not _BREAKS.search(text):
        return text
    # Joined from parts: a pattern that eats the white space takes quadratic time on long blanks.
    return " ".join(filter(None, map(str.strip, _BREAKS.split(text))))


def check_text(text: str, field: str) -> None:
    """Refuse NUL and lone surrogates.

    Raises:
        InvalidError: with ``field`` and ``position`` in the context.
    """
    # ASCII holds no surrogate, and looking for one character is far faster than for one of a class.
    if text.isascii() and "\0" not in text:
        return
    found = _NO_TEXT.search(text)
    if found is None:
        return
    name = "a NUL" if found[0] == "\0" else f"the lone surrogate U+{ord(found[0]):04X}"
    position = found.start()
    message = f"{field} holds {name} at character {position}, which is no text"
    raise InvalidError(message, hint="remove it, or decode the text again", field=field, position=position)


def check_body(body: str) -> None:
    """Refuse a body that is too large.

    Raises:
        InvalidError: it has more than ``MAX_BODY`` bytes.
    """
    # A character has at most four bytes: most bodies need no count.
    if len(body) * 4 <= MAX_BODY or len(body.encode("utf-8")) <= MAX_BODY:
        return
    message = f"the body has more than {MAX_BODY // 1024 // 1024} MiB"
    raise InvalidError(message, hint="split it into several entries, or keep it as a file and name it as a source")


def check_entry(entry: Entry) -> None:
    """Check everything that is asked of a new version of an entry.

    Beyond ``check_form``: there is a summary, every source has one of the forms ``file:…``, ``http(s)://…``, ``mem-…``,
    ``transcript:…`` and ``github:owner/repo…``, confidence lies in 0..1, and what begins to be true
    does not end before.

    Raises:
        InvalidError: the message names the field, the rule and what it holds.
    """
    check_form(entry)
    if not entry.summary.strip():
        message = "an entry needs a summary"
        raise InvalidError(
            message, hint="say it in a sentence that stands alone: it is what a search shows", field="summary"
        )
    for source in entry.source:
        if not _is_source(source):
            message = f"source {source[:80]!r} cannot be checked by a reader"
            raise InvalidError(
                message,
                hint="a source begins with 'file:', 'http://', 'https://', 'transcript:' or 'github:', or is an entry's id",
                field="source",
            )
    if entry.valid_from is not None and entry.valid_until is not None:
        check_span(entry.valid_from, entry.valid_until)


def check_span(valid_from: date | datetime, valid_until: date | datetime) -> None:
    """Check that ``valid_until`` is not before ``valid_from``. A date is the whole day, in UTC.

    Raises:
        InvalidError: it is before.
    """
    if to_utc(first_moment(valid_from)) > to_utc(_last_moment(valid_until)):
        message = f"valid_until {valid_until} is before valid_from {valid_from}"
        raise InvalidError(message, hint="exchange the two, or leave one out", field="valid_until")


def check_form(entry: Entry) -> None:
    """Check what an entry's bytes need to be read back as the same entry.

    Raises:
        InvalidError: the message names the field, the rule and what it holds.
    """
    _same(check_entry_id(entry.id), entry.id, "id")
    check_domain(entry.domain)
    check_type(entry.type)
    check_author(entry.author)
    if type(entry.version) is not int or not 1 <= entry.version <= MAX_VERSION:
        raise _wrong("version", entry.version, "an integer from 1")
    check_texts(entry)
    _check_times(entry)
    _check_scales(entry)
    for field, ids in (("supersedes", entry.supersedes), ("derived_from", entry.derived_from)):
        for id in ids:
            _same(check_entry_id(id), id, field)
    if entry.superseded_by is not None:
        _same(check_entry_id(entry.superseded_by), entry.superseded_by, "superseded_by")
    for name in entry.extra:
        if name in _KNOWN:
            message = f"extra holds {name!r}, which is a field of its own"
            raise InvalidError(message, hint=f"give it as {name}", field="extra")


def check_texts(entry: Entry) -> None:
    """Check the texts of an entry alone, where the rest is known to be sound.

    Raises:
        InvalidError: the message names the field, the rule and what it holds.
    """
    check_text(entry.body, "body")
    check_body(entry.body)
    _check_line(entry.title, "title")
    if not entry.title.strip():
        message = "an entry needs a title"
        raise InvalidError(message, hint="give it a title of one line", field="title")
    _check_line(entry.summary, "summary")
    if entry.lifecycle is not None:
        _check_line(entry.lifecycle, "lifecycle")
    for field, lines in (("source", entry.source), ("tags", entry.tags), ("aliases", entry.aliases)):
        _check_items(lines, field)


def _check_items(lines: Iterable[str], field: str) -> None:
    for line in lines:
        _check_line(line, field)
        if not line.strip():
            message = f"{field} holds an empty text"
            raise InvalidError(message, hint="leave it out", field=field)


def _check_line(text: object, field: str) -> None:
    if not isinstance(text, str):
        raise _wrong(field, text, "text")
    if len(text) <= MAX_LINE and (_is_simple(text) or not _NO_LINE.search(text)):
        return
    check_text(text, field)
    _check_length(text, field)
    if _BREAKS.search(text):
        message = f"{field} must be one line"
        raise InvalidError(message, hint="move what follows the first line into the body", field=field)


def _check_length(text: str, field: str) -> None:
    if len(text) > MAX_LINE:
        message = f"{field} has {len(text)} characters, more than {MAX_LINE}"
        raise InvalidError(message, hint="shorten it; the body has room", field=field)


def _check_times(entry: Entry) -> None:
    for field, when in (("created", entry.created), ("updated", entry.updated)):
        if not _is_a(when, datetime):
            raise _wrong(field, when, "a time in UTC")
        to_utc(when)
    for field, valid in (("valid_from", entry.valid_from), ("valid_until", entry.valid_until)):
        if isinstance(valid, datetime):
            render_time(valid)
            to_utc(valid)
        elif valid is not None and not _is_a(valid, date):
            raise _wrong(field, valid, "a date, or a time with an offset")
    if entry.review_by is not None and type(entry.review_by) is not date:
        raise _wrong("review_by", entry.review_by, "a date")


def _check_scales(entry: Entry) -> None:
    for field, value, scale in (
        ("classification", entry.classification, Label),
        ("trust_tier", entry.trust_tier, Tier),
        ("status", entry.status, Status),
    ):
        if not _is_a(value, scale):
            raise _wrong(field, value, f"a {scale.__name__}")
    if entry.confidence is not None and (type(entry.confidence) not in (int, float) or not 0 <= entry.confidence <= 1):
        raise _wrong("confidence", entry.confidence, "a number from 0 to 1")
    if type(entry.always_load) is not bool:
        raise _wrong("always_load", entry.always_load, "True or False")


def _is_simple(text: str) -> bool:
    """Return whether ``text`` is ASCII without any control, as most lines are: no rule for one line can refuse it."""
    return text.isascii() and text.isprintable()


def _is_source(source: str) -> bool:
    if _SOURCE.fullmatch(source):
        return True
    try:
        # A section or version may follow an entry's id, as in mem-1#method.
        check_entry_id(source.partition("#")[0])
    except InvalidError:
        return False
    return True


def _last_moment(when: date | datetime) -> datetime:
    if isinstance(when, datetime):
        return when
    return datetime.combine(when, time.min, UTC) + timedelta(hours=23, minutes=59, seconds=59, microseconds=999999)


def _is_a(value: object, kind: type) -> bool:
    """Return whether a value is what its annotation says, which nothing has checked before."""
    return isinstance(value, kind)


def _same(checked: str, given: str, field: str) -> None:
    if checked != given:
        message = f"{field} {given!r} is not in lower case"
        raise InvalidError(message, hint=f"write {checked!r}", field=field)


def _wrong(field: str, value: Any, rule: str) -> InvalidError:
    return InvalidError(f"{field} must be {rule}, {value!r} is not", hint=f"give {rule}", field=field)
