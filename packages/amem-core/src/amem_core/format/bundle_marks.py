"""The files of marks in a bundle: what was erased, which values may not come back, what was promoted.

Normative: ``docs/format/bundle.md``. A file has one line for each mark, in one order and one spelling,
so that it is read without a YAML library and in no more room than its longest line, and so that what
is sent on is byte for byte what came.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from amem_core.domain.labels import Label, Tier
from amem_core.domain.names import check_domain, check_entry_id, check_mark_key
from amem_core.errors import FormatError, InvalidError
from amem_core.format.bundle import KINDS
from amem_core.format.checks import MAX_LINE, clean_text
from amem_core.format.frontmatter import fail
from amem_core.format.times import parse_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import BinaryIO

FORMAT = "durable-memory/marks/0"
"""The form of the files of marks that is written, and the only one that is read."""
MAX_MARK = 4 * 1024 * 1024
"""How many bytes one line may have."""

_DASH = b"  - "
_MOST_DEPTH = 40
_REASON = r"[a-z][a-z_-]{0,39}"
_DIGEST = r"[0-9a-f]{64}"
_CAUSES = frozenset({"rejected", "erased"})
_FIELDS = {
    "receipts": ("id", "label", "reason", "by", "time", "versions", "values", "lifted"),
    "tombstones": ("value", "id", "label", "cause", "reason", "by", "when", "lifted"),
    "promotions": ("id", "label", "records"),
}
_LIFTED = ("when", "by", "reason")
_VERSION = ("version", "digest")
_RECORD = ("domain", "version", "digest", "tier", "verified")


def render_heading(kind: str) -> bytes:
    """Return the lines that a file of ``kind`` begins with."""
    return f"format: {FORMAT}\nkind: {kind}\nitems:\n".encode()


def render_mark(kind: str, mark: Mapping[str, Any]) -> bytes:
    """Return the line of one mark.

    Raises:
        InvalidError: the mark breaks a rule of its kind.
    """
    try:
        text = json.dumps({name: mark[name] for name in _FIELDS[kind]}, ensure_ascii=False, allow_nan=False)
        line = _DASH + _hidden().sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode() + b"\n"
        check_mark(kind, mark)
    except KeyError as exc:
        raise _wrong(f"there is no {exc.args[0]}") from exc
    except (TypeError, ValueError, RecursionError) as exc:
        if isinstance(exc, InvalidError):
            raise
        raise _wrong(f"it cannot be written: {exc}") from exc
    if len(line) > MAX_MARK:
        raise _wrong(f"it takes {len(line)} bytes, more than {MAX_MARK // 1024 // 1024} MiB")
    return line


def read_marks(file: BinaryIO, kind: str, *, path: str) -> Iterator[dict[str, Any]]:
    """Yield the marks of a file, each checked by itself and against the order. ``path`` is named in errors.

    Raises:
        FormatError: a line breaks a rule; ``path``, ``line`` and ``reason`` in the context. What was yielded stands.
    """
    try:
        yield from _read(file, kind)
    except FormatError as exc:
        raise FormatError(f"{path}, {exc}", hint=exc.hint, path=path, **exc.context) from exc


def order_of(kind: str, mark: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the lines of a file are sorted by; no two have it in common."""
    return (mark["value"], mark["id"]) if kind == "tombstones" else (mark["id"],)


def check_mark(kind: str, mark: Mapping[str, Any]) -> None:
    """Check the fields of a mark.

    Raises:
        InvalidError: one breaks a rule.
    """
    _check_fields(mark, _FIELDS[kind])
    if check_entry_id(mark["id"]) != mark["id"]:
        raise _wrong(f"the id {mark['id']!r} is not in lower case")
    Label.parse(mark["label"])
    _CHECKS[kind](mark)


def _read(file: BinaryIO, kind: str) -> Iterator[dict[str, Any]]:
    heading = render_heading(kind)
    if file.read(len(heading)) != heading:
        fail(1, f"it does not begin as a file of {kind} does", f"its first lines are those of {FORMAT}")
    before: tuple[str, ...] = ()
    number = heading.count(b"\n")
    while line := file.readline(MAX_MARK + 1):
        number += 1
        mark = _parse(line, kind, number)
        key = order_of(kind, mark)
        if key <= before:
            fail(number, f"{key[0]} stands twice, or not in its place", "a file of marks is in order")
        before = key
        yield mark
    if not before:
        fail(number, "it is empty", "leave an empty file out")


def _parse(line: bytes, kind: str, number: int) -> dict[str, Any]:
    if len(line) > MAX_MARK:
        fail(number, f"the line is longer than {MAX_MARK // 1024 // 1024} MiB")
    try:
        mark: Any = json.loads(line.removeprefix(_DASH))
        same = type(mark) is dict and render_mark(kind, cast("Mapping[str, Any]", mark)) == line
    except InvalidError as exc:
        fail(number, str(exc), exc.hint, exc)
    except (ValueError, RecursionError) as exc:
        fail(number, f"not a mark on one line: {exc}", "export the bundle again", exc)
    if not same:
        fail(number, "the line is not spelled as a mark of this kind is", "export the bundle again")
    return cast("dict[str, Any]", mark)


def _check_receipt(mark: Mapping[str, Any]) -> None:
    if not (isinstance(mark["reason"], str) and re.fullmatch(_REASON, mark["reason"])):
        raise _wrong("the reason of a receipt is one word")
    _check_line(mark, "by")
    parse_instant(_text(mark, "time"))
    for version in _list(mark, "versions"):
        _check_fields(version, _VERSION)
        _check_version(version)
    for value in _list(mark, "values"):
        check_mark_key("tombstones", value)
    _check_lifted(mark)


def _check_tombstone(mark: Mapping[str, Any]) -> None:
    check_mark_key("tombstones", mark["value"])
    if mark["cause"] not in _CAUSES:
        raise _wrong(f"{mark['cause']!r} is no cause of a tombstone")
    for name in ("reason", "by", "when"):
        _check_line(mark, name)
    _check_lifted(mark)


def _check_promotion(mark: Mapping[str, Any]) -> None:
    if not _list(mark, "records"):
        raise _wrong("there is no record")
    for record in mark["records"]:
        _check_fields(record, _RECORD)
        check_domain(record["domain"])
        _check_version(record)
        Tier.parse(record["tier"])
        for item in _list(record, "verified"):
            _check_depth(item, 0)
            if not isinstance(item, dict):
                raise _wrong("a verification is a mapping")


_CHECKS: dict[str, Callable[[Mapping[str, Any]], None]] = dict(
    zip(KINDS, (_check_receipt, _check_tombstone, _check_promotion), strict=True)
)


def _check_fields(mark: object, names: tuple[str, ...]) -> None:
    if not isinstance(mark, dict) or set(cast("Mapping[str, Any]", mark)) != set(names):
        raise _wrong(f"its fields are {', '.join(names)}")


def _check_version(mark: Mapping[str, Any]) -> None:
    version, digest = mark["version"], mark["digest"]
    if type(version) is not int or version < 1:
        raise _wrong("version is not an integer from 1")
    if not (isinstance(digest, str) and re.fullmatch(_DIGEST, digest)):
        raise _wrong("digest is not 64 lower-case hexadecimal digits")


def _check_lifted(mark: Mapping[str, Any]) -> None:
    if mark["lifted"] is None:
        return
    _check_fields(mark["lifted"], _LIFTED)
    for name in _LIFTED:
        _check_line(mark["lifted"], name)


def _check_line(mark: Mapping[str, Any], name: str) -> None:
    text = _text(mark, name)
    if len(text) > MAX_LINE or clean_text(text, name) != text:
        raise _wrong(f"{name} is not one line of text")


def _check_depth(value: object, depth: int) -> None:
    """Refuse text that is none, and what nests deeper than an entry's field may."""
    if depth > _MOST_DEPTH:
        raise _wrong("a verification nests too deep")
    if isinstance(value, str):
        if "\0" in value:
            raise _wrong("a verification holds NUL, which is no text")
    elif isinstance(value, dict):
        for name, inner in cast("Mapping[str, Any]", value).items():
            _check_depth(name, depth)
            _check_depth(inner, depth + 1)
    elif isinstance(value, list):
        for inner in cast("Sequence[Any]", value):
            _check_depth(inner, depth + 1)


def _text(mark: Mapping[str, Any], name: str) -> str:
    if not isinstance(mark[name], str):
        raise _wrong(f"{name} is not text")
    return str(mark[name])


def _list(mark: Mapping[str, Any], name: str) -> list[Any]:
    if not isinstance(mark[name], list):
        raise _wrong(f"{name} is not a list")
    return list(mark[name])


def _wrong(reason: str) -> InvalidError:
    return InvalidError(f"this is no mark of its kind: {reason}", hint="export the bundle again")


@cache
def _hidden() -> re.Pattern[str]:
    """Return what a reader of YAML refuses or drops inside quotes, which JSON lets stand."""
    return re.compile(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
