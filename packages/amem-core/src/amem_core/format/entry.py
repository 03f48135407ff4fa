"""The bytes of an entry: frontmatter, then the body (normative: ``docs/format/entry.md``)."""

from __future__ import annotations

import hashlib
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from amem_core.domain.entries import NOTHING, Entry
from amem_core.domain.labels import Label, Status, Tier
from amem_core.domain.names import check_author, check_domain, check_entry_id, check_type
from amem_core.errors import FormatError, InvalidError
from amem_core.format import scalars
from amem_core.format.checks import (
    FIELDS,
    MAX_BODY,
    MAX_LINE,
    check_entry,
    check_form,
    check_texts,
    clean_text,
    one_line,
)
from amem_core.format.frontmatter import (
    MAX_BYTES,
    List,
    Map,
    Node,
    Scalar,
    Verbatim,
    fail,
    render_fields,
    split,
    value,
)
from amem_core.format.frontmatter import (
    parse as parse_fields,
)
from amem_core.format.times import parse_date, parse_instant, parse_when, render_utc, render_when, to_utc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["FIELDS", "MAX_BODY", "MAX_LINE", "check_entry", "clean_text", "decode", "digest", "parse", "render"]

_DEFAULT_TYPE = "reference"
_DEFAULT_AUTHOR = "owner"
_BOM = b"\xef\xbb\xbf"
_VERSION_DIGITS = 9
_KNOWN = frozenset(FIELDS)
_T = TypeVar("_T")


def digest(data: bytes) -> str:
    """Return the SHA-256 of an entry's stored bytes, in lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def render(entry: Entry, *, checked: bool = False) -> bytes:
    """Return the entry's bytes; ``parse`` of them gives an equal entry.

    ``checked`` says that this very entry has passed ``check_entry`` or ``check_form``, which is then not repeated.

    Raises:
        InvalidError: the entry breaks a rule of ``check_form``, holds a value that frontmatter
            cannot keep, or its frontmatter is larger than 256 KiB.
    """
    if not checked:
        check_form(entry)
    front = _front(entry)
    try:
        head = front.encode("utf-8")
    except UnicodeEncodeError as exc:
        message = f"a field of {entry.id} holds a lone surrogate, which is no text"
        raise InvalidError(message, hint="remove it, or decode the text again") from exc
    if len(head) > MAX_BYTES:
        message = f"the fields of {entry.id} take {len(head)} bytes, more than {MAX_BYTES // 1024} KiB"
        raise InvalidError(message, hint="move text into the body")
    # One empty line stands between, and belongs to neither.
    body = b"\n" + entry.body.encode("utf-8") if entry.body else b""
    return b"---\n" + head + b"---\n" + body


def parse(
    data: bytes,
    *,
    domain: str,
    id: str | None = None,
    fallback_time: datetime | None = None,
    fallback_label: Label | None = None,
    path: str = "",
) -> Entry:
    """Return the entry that the bytes hold.

    ``domain`` and ``id`` are those of the path; the file may leave both out and may not contradict
    them. ``fallback_time`` and ``fallback_label`` stand in for what a file made by hand does not
    say; without them such a file is refused. ``path`` is named in errors.

    Raises:
        FormatError: the bytes are no entry; ``path``, ``line`` and ``reason`` in the context.
    """
    where = path or (f"{domain}/{id}.md" if id else f"an entry of {domain}")
    try:
        text = decode(data)
        parts = split(text)
        if parts is None:
            fail(1, "there is no frontmatter", "begin the file with a line '---', 'title: …' and a line '---'")
        front, end = parts
        body = text[end + 1 :] if text.startswith("\n", end) else text[end:]
        return _Reader(parse_fields(front), domain, id).entry(body, fallback_time, fallback_label)
    except FormatError as exc:
        raise FormatError(f"{where}, {exc}", hint=exc.hint, path=where, **exc.context) from exc


def decode(data: bytes) -> str:
    """Return the text of a file that a person may have edited.

    A byte order mark at its beginning is dropped. When its first line ends in CRLF, every CRLF
    becomes LF.

    Raises:
        FormatError: it is not UTF-8, or holds NUL.
    """
    data = data.removeprefix(_BOM)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        fail(line, f"not UTF-8: byte 0x{data[exc.start]:02x}", "save the file as UTF-8", exc)
    nul = text.find("\0")
    if nul >= 0:
        fail(text.count("\n", 0, nul) + 1, "there is a NUL, which is no text", "remove it")
    first = text.find("\n")
    return text.replace("\r\n", "\n") if first > 0 and text[first - 1] == "\r" else text


def _front(entry: Entry) -> str:
    """Return the lines of the fields, in their order.

    What every entry has is written out: the forms of an id, an author, a time and the words of the
    scales, which are checked by now, never need quotes.
    """
    created = render_utc(entry.created)
    updated = created if entry.updated is entry.created else render_utc(entry.updated)
    return (
        f"id: {entry.id}\nversion: {entry.version}\n"
        f"type: {scalars.scalar(entry.type)}\ndomain: {scalars.scalar(entry.domain)}\n"
        f"title: {scalars.scalar(entry.title)}\nsummary: {scalars.scalar(entry.summary)}\n"
        f"author: {entry.author}\ncreated: {created}\nupdated: {updated}\n"
        f"{render_fields(_where_from(entry))}"
        f"trust_tier: {entry.trust_tier.name}\nclassification: {entry.classification.name}\n"
        f"status: {entry.status.value}\n"
        f"{render_fields(_what_follows(entry))}"
    )


def _where_from(entry: Entry) -> Iterator[tuple[str, Any]]:
    yield from _optional(
        valid_from=Verbatim(render_when(entry.valid_from)) if entry.valid_from else None,
        valid_until=Verbatim(render_when(entry.valid_until)) if entry.valid_until else None,
        source=entry.source,
    )
    if entry.confidence is not None:
        yield "confidence", float(entry.confidence)


def _what_follows(entry: Entry) -> Iterator[tuple[str, Any]]:
    yield from _optional(
        review_by=Verbatim(entry.review_by.isoformat()) if entry.review_by else None,
        supersedes=entry.supersedes,
        superseded_by=entry.superseded_by,
        derived_from=entry.derived_from,
        verified=entry.verified,
        rejected=entry.rejected,
        tags=entry.tags,
        aliases=entry.aliases,
        always_load=entry.always_load,
    )
    if entry.lifecycle is not None:
        yield "lifecycle", entry.lifecycle
    yield from entry.extra.items()


def _optional(**fields: Any) -> Iterator[tuple[str, Any]]:
    return ((name, kept) for name, kept in fields.items() if kept)


class _Reader:
    """Reads the fields that the format knows out of parsed frontmatter, naming the line of what is wrong."""

    def __init__(self, fields: dict[str, Node], domain: str, id: str | None) -> None:
        self._fields = fields
        self._domain = domain
        self._id = id

    def entry(self, body: str, fallback_time: datetime | None, fallback_label: Label | None) -> Entry:
        title = self._line("title")
        if title is None or not title.strip():
            fail(self._at("title"), "there is no title", "add a line 'title: …' to the frontmatter")
        summary = self._line("summary")
        created, updated = self._read("created", parse_instant), self._read("updated", parse_instant)
        created = created or updated or self._needed("created", fallback_time)
        extra = {name: value(node) for name, node in self._fields.items() if name not in _KNOWN}
        entry = Entry(
            id=self._own_id(),
            version=self._read("version", _version) or 1,
            type=self._read("type", check_type) or _DEFAULT_TYPE,
            domain=self._own_domain(),
            title=title,
            summary=title if summary is None else summary,
            body=body,
            author=self._read("author", check_author) or _DEFAULT_AUTHOR,
            created=created,
            updated=updated or created,
            classification=self._label(fallback_label),
            trust_tier=self._read("trust_tier", Tier.parse) or Tier.raw,
            status=self._read("status", _status) or Status.active,
            valid_from=self._read("valid_from", _valid),
            valid_until=self._read("valid_until", _valid),
            source=self._lines("source"),
            confidence=self._read("confidence", _confidence),
            review_by=self._read("review_by", parse_date),
            supersedes=self._ids("supersedes"),
            superseded_by=self._read("superseded_by", check_entry_id),
            derived_from=self._ids("derived_from"),
            verified=self._records("verified", "when, by, oracle and evidence"),
            rejected=self._records("rejected", "when, by and reason"),
            tags=self._lines("tags"),
            aliases=self._lines("aliases"),
            always_load=self._always_load(),
            lifecycle=self._line("lifecycle"),
            extra=extra or NOTHING,
        )
        try:
            check_texts(entry)
        except InvalidError as exc:
            fail(self._at(str(exc.context.get("field", ""))), str(exc), exc.hint, exc)
        return entry

    def _at(self, name: str) -> int:
        node = self._fields.get(name)
        return 1 if node is None else node.line

    def _text(self, name: str) -> str | None:
        """Return the text of a scalar as it was written, None for a field that is missing or null."""
        node = self._fields.get(name)
        if node is None:
            return None
        if not isinstance(node, Scalar):
            kind = "a list" if isinstance(node, List) else "a mapping"
            fail(node.line, f"{name} is {kind}", f"write one value behind '{name}:', in quotes when in doubt")
        return None if _is_null(node) else node.text

    def _line(self, name: str) -> str | None:
        text = self._text(name)
        return None if text is None else one_line(text)

    def _read(self, name: str, reader: Callable[[str], _T]) -> _T | None:
        text = self._text(name)
        return None if text is None else self._guarded(self._fields[name].line, name, reader, text)

    def _guarded(self, line: int, name: str, reader: Callable[[str], _T], text: str) -> _T:
        try:
            return reader(text)
        except InvalidError as exc:
            fail(line, f"{name}: {exc}", exc.hint, exc)

    def _own_id(self) -> str:
        stated = self._read("id", check_entry_id)
        if self._id is None:
            if stated is None:
                fail(1, "there is no id", "add a line 'id: mem-…', or name the file after its id")
            return stated
        own = self._guarded(1, "the file's name", check_entry_id, self._id)
        if stated is not None and stated != own:
            fail(self._at("id"), f"id is {stated!r} and the file is named {own!r}", "make the two agree")
        return own

    def _own_domain(self) -> str:
        stated = self._text("domain")
        if stated is not None and stated != self._domain:
            where = f"domain is {stated!r} and the file lies in {self._domain!r}"
            fail(self._at("domain"), where, "make the two agree, or remove the line")
        return self._guarded(1, "domain", check_domain, self._domain)

    def _label(self, fallback: Label | None) -> Label:
        label = self._read("classification", Label.parse)
        return self._needed("classification", fallback) if label is None else label

    def _needed(self, name: str, fallback: _T | None) -> _T:
        if fallback is None:
            fail(self._at(name), f"there is no {name}", f"add a line '{name}: …' to the frontmatter")
        return fallback

    def _lines(self, name: str) -> tuple[str, ...]:
        """Return a list of lines; one value alone is a list of one, and null items are left out."""
        node = self._fields.get(name)
        if node is None:
            return ()
        if isinstance(node, Map):
            fail(node.line, f"{name} is a mapping", f"write a list, as in '{name}: [one, two]'")
        lines: list[str] = []
        for item in node.items if isinstance(node, List) else [node]:
            if not isinstance(item, Scalar):
                fail(item.line, f"an item of {name} is not text", 'quote it with "…"')
            if not _is_null(item):
                lines.append(one_line(item.text))
        return tuple(lines)

    def _ids(self, name: str) -> tuple[str, ...]:
        line = self._at(name)
        return tuple(self._guarded(line, name, check_entry_id, text) for text in self._lines(name))

    def _records(self, name: str, parts: str) -> tuple[Mapping[str, Any], ...]:
        node = self._fields.get(name)
        if node is None or (isinstance(node, Scalar) and _is_null(node)):
            return ()
        items = node.items if isinstance(node, List) else [node]
        for item in items:
            if not isinstance(item, Map):
                fail(item.line, f"an item of {name} is not a mapping", f"write {parts} by name")
        return tuple(value(item) for item in items)

    def _always_load(self) -> bool:
        text = self._text("always_load")
        if text is None:
            return False
        truth = scalars.truth(text)
        if truth is None:
            fail(self._at("always_load"), f"always_load is {text!r}", "write true or false")
        return truth


def _is_null(node: Scalar) -> bool:
    return node.plain and scalars.is_null(node.text)


def _version(text: str) -> int:
    if len(text) <= _VERSION_DIGITS and text.isascii() and text.isdigit() and int(text):
        return int(text)
    message = f"{text[:60]!r} is not a version"
    raise InvalidError(message, hint="versions are integers from 1")


def _valid(text: str) -> date | datetime:
    when = parse_when(text)
    if isinstance(when, datetime):
        to_utc(when)
    return when


def _confidence(text: str) -> float:
    number = scalars.number(text)
    if number is not None and 0 <= number <= 1:
        return float(number)
    message = f"{text[:60]!r} is not a number from 0 to 1"
    raise InvalidError(message, hint="write it as 0.8")


def _status(text: str) -> Status:
    try:
        return Status(text)
    except ValueError as exc:
        message = f"{text[:60]!r} is not a status"
        raise InvalidError(message, hint=f"one of: {', '.join(Status)}") from exc
