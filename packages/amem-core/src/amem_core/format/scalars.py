r"""Which words YAML reads as something other than text, and how values are written so that no reader errs.

Two readers are in use: YAML 1.2's core schema, which amem reads by, and YAML 1.1, which many
editors and libraries still read by (``yes`` is true there, ``1:20`` is 80, ``2026-01-01`` is a
date). What is written here means the same to both.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeGuard

from amem_core.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_DEPTH = 32
"""How deep lists and mappings may nest in frontmatter."""
MAX_KEY = 150
"""How many characters a field's name may have: YAML ends an implicit key at 1,024, escapes counted."""

_FLOW_WIDTH = 100
_REMEMBERED = 256
_MAX_DIGITS = 300

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_LONGEST_WORD = 5
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)", re.ASCII)

# A class that names characters beyond Latin-1 takes milliseconds to compile, and most text is ASCII. So
# the patterns of plain text name what they exclude of ASCII, and what they exclude beyond is one class.
_FIRST = r"[^\x00-#%-')-.0-@\[-\^`{-\x7f]"
FLOW_PLAIN = rf"""{_FIRST}[^\x00-\x1f"#,:?\[\]{{}}\x7f]*"""
PLAIN = rf"(?!.*(?:: | #|[: ](?:\n|\Z))){_FIRST}[^\x00-\x1f\x7f]*"
_PLAIN = re.compile(PLAIN)
_FLOW_PLAIN = re.compile(FLOW_PLAIN)
_QUOTER = json.JSONEncoder(ensure_ascii=False)


class Verbatim(str):
    """A plain scalar that is kept as it was written, because rendering its value would change it.

    ``1.10``, ``0x1F``, ``+5``, ``2026-01-01`` and ``yes`` in a field that amem does not know are
    such. It is text to whoever reads it and is written back without quotes.
    """

    __slots__ = ()


@cache
def _int() -> re.Pattern[str]:
    return re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)


@cache
def _float() -> re.Pattern[str]:
    return re.compile(
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII
    )


@cache
def _old() -> re.Pattern[str]:
    """Return what a YAML 1.1 reader takes for a number, a truth or a time."""
    return re.compile(
        r"[yY]|[nN]|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF"
        r"|[-+]?0b[01_]+|[-+]?0x[0-9a-fA-F_]+|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])*(?:\.[0-9_]*)?"
        r"|[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|[-+]?\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
        r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
        r"(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::?[0-9]{2})?))?)?",
        re.ASCII,
    )


@cache
def _unusual() -> re.Pattern[str]:
    """Return the characters beyond ASCII that never stand without quotes: spaces, formatting, private planes."""
    return re.compile(
        r"[\x80-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ud800-\udfff\ufeff\ufff0-\uffff"
        r"\U000e0001-\U000e007f\U000f0000-\U0010ffff]"
    )


@cache
def _hidden() -> re.Pattern[str]:
    """Return what is not shown, or shown as something else: controls, line separators, changes of direction."""
    return re.compile(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")


def _is_plain(text: str, pattern: re.Pattern[str]) -> bool:
    """Return whether ``text`` needs no quotes and is text to every reader."""
    return (
        pattern.fullmatch(text) is not None
        and text[-1] != " "
        and not is_word(text)
        and (text.isascii() or not _unusual().search(text))
    )


def is_word(text: str) -> bool:
    """Return whether ``text`` is one of the words that a reader takes for a truth or for nothing."""
    return len(text) <= _LONGEST_WORD and text.lower() in _WORDS


def is_typed(text: str) -> bool:
    """Return whether a reader takes the plain scalar ``text`` for a number, a time or an old truth."""
    if not text or not (text[0] in "0123456789+-." or text[0] in "yYnNoO"):
        return False
    return any(pattern().fullmatch(text) for pattern in (_int, _float, _old))


def is_null(text: str) -> bool:
    """Return whether the plain scalar ``text`` stands for nothing."""
    return text in _NULLS


def truth(text: str) -> bool | None:
    """Return the truth that the plain scalar ``text`` stands for, or None."""
    return _TRUTHS.get(text)


def number(text: str) -> int | float | None:
    """Return the finite number that the plain scalar ``text`` stands for, or None."""
    if len(text) > _MAX_DIGITS:
        return None
    if _int().fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _float().fullmatch(text) and text[-1] in "0123456789.":
        value = float(text)
        return value if math.isfinite(value) else None
    return None


def resolve(text: str) -> None | bool | int | float | str:  # noqa: RUF036  (in the order of the schema)
    """Return what the plain scalar ``text`` means under the core schema, or a ``Verbatim``."""
    if text in _NULLS:
        return None
    if text in _TRUTHS:
        return _TRUTHS[text]
    if not is_typed(text):
        return text
    if len(text) <= _MAX_DIGITS:
        if _DECIMAL.fullmatch(text) and text != "-0":
            return int(text)
        if _float().fullmatch(text) and text[-1].isdigit():
            value = float(text)
            if _render_float(value) == text:
                return value
    return Verbatim(text)


def quoted(text: str) -> str:
    """Return ``text`` as a double-quoted scalar that is a JSON string as well.

    Raises:
        InvalidError: it holds NUL, which some backends cannot keep.
    """
    if "\0" in text:
        raise _refusal("a field holds NUL, which is no text", "remove it")
    word = _QUOTER.encode(text)
    if word.isascii():
        return word.replace("\x7f", "\\u007f")
    return _hidden().sub(lambda found: f"\\u{ord(found[0]):04x}", word)


def render_fields(fields: Iterable[tuple[str, Any]]) -> str:
    """Return the fields as the lines of a block mapping, in their order.

    A value is None, a truth, a number, text, a ``Verbatim``, a list or tuple, or a mapping of those.

    Raises:
        InvalidError: a value is something else, nests too deep, or a name is too long or no text.
    """
    lines: list[str] = []
    for name, value in fields:
        _field(lines, "", name, value, 1)
    lines.append("")
    return "\n".join(lines)


def scalar(text: str) -> str:
    """Return text as the value of a field in a block mapping.

    Raises:
        InvalidError: it holds NUL, which some backends cannot keep.
    """
    return _scalar(text)


def flow_list(items: Sequence[Any]) -> str:
    """Return a list of scalars on one line."""
    return "[" + ", ".join([_scalar(item, in_flow=True) for item in items]) + "]"


def _field(lines: list[str], indent: str, name: object, value: Any, depth: int) -> None:
    head = f"{indent}{_key(name)}:"
    if not _is_collection(value):
        lines.append(f"{head} {_scalar(value)}")
        return
    inline = _inline(value)
    if inline is not None:
        lines.append(f"{head} {inline}")
        return
    lines.append(head)
    _block(lines, indent + "  ", value, depth + 1)


def _block(lines: list[str], indent: str, value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _refusal(f"a field nests deeper than {MAX_DEPTH} levels", "write it flatter, or put it into the body")
    if not _is_list(value):
        for name, inner in value.items():
            _field(lines, indent, name, inner, depth)
        return
    for item in value:
        inline = _inline(item) if _is_collection(item) else _scalar(item)
        if inline is not None:
            lines.append(f"{indent}- {inline}")
            continue
        start = len(lines)
        _block(lines, indent + "  ", item, depth + 1)
        # The item's first line takes the dash in place of its last two spaces of indentation.
        lines[start] = f"{indent}- {lines[start][len(indent) + 2 :]}"


def _inline(value: Any) -> str | None:
    """Return a collection on one line when it is short and holds scalars only, or is empty."""
    if not value:
        return "[]" if _is_list(value) else "{}"
    if not _is_list(value) or any(_is_collection(item) for item in value):
        return None
    text = flow_list(value)
    return text if len(text) <= _FLOW_WIDTH else None


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple))


def _is_collection(value: Any) -> bool:
    return not isinstance(value, str) and (_is_list(value) or hasattr(value, "items"))


def _key(name: object) -> str:
    if not isinstance(name, str):
        raise _refusal(f"a field's name must be text, {name!r} is not", "make it a string")
    if len(name) > MAX_KEY:
        raise _refusal(f"the field's name {name[:40]!r}… has more than {MAX_KEY} characters", "shorten it")
    return _written_key(name)


@lru_cache(_REMEMBERED)
def _written_key(name: str) -> str:
    """Return a key as it is written: the names of the fields come again with every entry."""
    return name if _is_plain(name, _FLOW_PLAIN) else quoted(name)


def _scalar(value: Any, *, in_flow: bool = False) -> str:
    if isinstance(value, str):
        if isinstance(value, Verbatim) and is_typed(value):
            return str(value)
        return str(value) if _is_plain(value, _FLOW_PLAIN if in_flow else _PLAIN) else quoted(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _render_int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _refusal(f"{value} cannot be kept in a field", "give a finite number, or text")
        return _render_float(value)
    raise _refusal(
        f"a {type(value).__name__} cannot be kept in a field", "give text, numbers, truths, lists or mappings"
    )


def _render_int(value: int) -> str:
    if value.bit_length() > _MAX_DIGITS * 3:
        raise _refusal("an integer has too many digits to be kept in a field", "give it as text")
    return str(int(value))


def _render_float(value: float) -> str:
    """Return the shortest decimal that both readers take for this number: with a point, with an exponent's sign."""
    mantissa, exponent, power = repr(float(value)).partition("e")
    return mantissa + (".0" if "." not in mantissa else "") + exponent + power


def _refusal(message: str, hint: str) -> InvalidError:
    return InvalidError(message, hint=hint)
