"""Between the domain's values and the rows of the index: documents in, hits out, times as integers."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from amem_core.domain.fingerprints import fingerprint
from amem_core.domain.labels import Label, Status, Tier
from amem_core.domain.queries import Hit
from amem_core.errors import InvalidError
from amem_core.ports.index import Kept
from amem_index.analysis import clean, exact_terms, normalised, segmented

if TYPE_CHECKING:
    from amem_core.domain.entries import Document, Entry

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1)
_DAY = 86_400_000_000
_TICK = timedelta(microseconds=1)
_DATE_LENGTH = 10
_DIGEST = 4  # Where a card has the digest.
# Looking a member up by its value costs several times as much, and a search does it for each hit.
_LABELS: tuple[Label, ...] = tuple(Label)
_TIERS: tuple[Tier, ...] = tuple(Tier)
_STATUSES = {status.value: status for status in Status}

# One encoder for all: json.dumps with these settings would build one for each document.
_encode = json.JSONEncoder(separators=(",", ":")).encode

KEPT_COLUMNS = "d.id, d.version, d.known_from, d.shown, d.status, d.card"
HIT_COLUMNS = "d.id, d.version, d.type, d.author, d.shown, d.tier, d.status, d.created, d.card"


def micros(time: datetime, what: str) -> int:
    """Return ``time`` as microseconds since 1970 in UTC.

    Raises:
        InvalidError: it names no offset, so it is no instant.
    """
    if time.tzinfo is None:
        message = f"{what} {time.isoformat()} names no offset from UTC, so it is no instant"
        raise InvalidError(message, hint="give a time with its offset, such as 2026-03-29T02:30:00Z")
    return (time - _EPOCH) // _TICK


def lines(values: tuple[str, ...]) -> str:
    """Return ``values`` as lines, each between two line feeds, so that one is found as ``line`` makes it."""
    return "".join(map(line, values)) and "\n" + "\n".join(map(_escaped, values)) + "\n"


def line(value: str) -> str:
    """Return the form in which a whole value is found among ``lines``."""
    return f"\n{_escaped(value)}\n"


def start(value: str) -> str:
    """Return the form in which a value's beginning is found among ``lines``."""
    return f"\n{_escaped(value)}"


def doc_row(document: Document) -> tuple[Any, ...]:
    """Return what the table ``doc`` keeps of a document, from ``status`` on to ``card`` without ``known_until``."""
    entry = document.entry
    return (
        entry.status.value,
        clean(entry.type),
        int(entry.trust_tier),
        micros(entry.created, f"{entry.id}: created"),
        micros(document.known_from, f"{entry.id}: known_from"),
        _span_start(entry),
        _span_end(entry),
        int(entry.always_load),
        clean(entry.id),
        entry.version,
        int(entry.classification),
        clean(entry.author),
        lines(entry.tags),
        lines(entry.source),
        fingerprint(type=entry.type, title=entry.title, summary=entry.summary, body=entry.body),
        len((entry.body or entry.summary).split()),
        _strand(entry),
        _card(document),
    )


def words_row(entry: Entry) -> tuple[str, ...]:
    """Return the text of an entry as the tables of words take it."""
    texts = [normalised(text) for text in (entry.title, entry.summary, entry.body)]
    names = [normalised(name) for name in (*entry.aliases, *entry.tags)]
    return (*map(segmented, texts), segmented("\n".join(names)), exact_terms([*texts, *names]))


def kept(row: tuple[Any, ...]) -> Kept:
    """Return what a row of ``KEPT_COLUMNS`` says of its version."""
    id_, version, known_from, label, status, card = row
    moment = _EPOCH + timedelta(microseconds=known_from)
    return Kept(id_, version, json.loads(card)[_DIGEST], moment, _LABELS[int(label)], _STATUSES[status])


def hit(row: tuple[Any, ...], score: float = 0.0) -> Hit:
    """Return the hit that a row of ``HIT_COLUMNS`` stands for."""
    id_, version, type_, author, label, tier, status, created, card = row
    domain, title, summary, updated, digest, source, tags, valid_from, valid_until, review_by, by = json.loads(card)
    return Hit(
        id=id_,
        version=version,
        domain=domain,
        type=type_,
        title=title,
        summary=summary,
        author=author,
        label=_LABELS[int(label)],
        tier=_TIERS[int(tier)],
        status=_STATUSES[status],
        created=_EPOCH + timedelta(microseconds=created),
        updated=_EPOCH + timedelta(microseconds=updated),
        digest=digest,
        score=score,
        source=tuple(source),
        tags=tuple(tags),
        valid_from=_read_time(valid_from),
        valid_until=_read_time(valid_until),
        review_by=None if review_by is None else date.fromisoformat(review_by),
        superseded_by=by,
    )


def _strand(entry: Entry) -> str | None:
    """Return what an entry is a piece of: the document or transcript that it was cut from, else its session."""
    for source in entry.source:
        whole, mark, _ = source.partition("#")
        if mark and not whole.startswith("github:"):
            return clean(whole)
    return entry.author if entry.author.startswith("session:") else None


def _card(document: Document) -> str:
    entry = document.entry
    return _encode(
        [
            clean(entry.domain),
            clean(entry.title),
            clean(entry.summary),
            micros(entry.updated, f"{entry.id}: updated"),
            document.digest,
            [clean(source) for source in entry.source],
            [clean(tag) for tag in entry.tags],
            _written_time(entry.valid_from),
            _written_time(entry.valid_until),
            _written_time(entry.review_by),
            entry.superseded_by,
        ]
    )


def _span_start(entry: Entry) -> int | None:
    """Return the first instant at which the entry is true; a date begins at midnight UTC."""
    value = entry.valid_from
    if value is None or isinstance(value, datetime):
        return None if value is None else micros(value, f"{entry.id}: valid_from")
    return (value - _EPOCH_DAY).days * _DAY


def _span_end(entry: Entry) -> int | None:
    """Return the first instant at which the entry is true no longer; a date holds to its end in UTC."""
    value = entry.valid_until
    if value is None or isinstance(value, datetime):
        return None if value is None else micros(value, f"{entry.id}: valid_until")
    return ((value - _EPOCH_DAY).days + 1) * _DAY


def _written_time(value: date | datetime | None) -> str | None:
    return None if value is None else value.isoformat()


def _read_time(text: str | None) -> date | datetime | None:
    if text is None:
        return None
    return date.fromisoformat(text) if len(text) == _DATE_LENGTH else datetime.fromisoformat(text)


def _escaped(value: str) -> str:
    return clean(value).replace("\\", "\\\\").replace("\n", "\\n")
