"""Frontmatter: from the text between two ``---`` lines to nodes, and from nodes to values.

YAML 1.2's core schema, without what makes YAML surprising: no aliases, no tags of one's own, no
field twice, names are text. The values of fields that amem knows are read from a node's text, so
that ``title: 2026-01-01`` is a title; the values of others by ``value``.

What amem itself writes is read by a scanner of its own, without importing a YAML library. Whatever
that scanner does not know for certain goes to the library.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from amem_core.errors import FormatError
from amem_core.format import scalars
from amem_core.format.scalars import MAX_DEPTH, MAX_KEY, Verbatim, render_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MAX_BYTES", "List", "Map", "Node", "Scalar", "Verbatim", "parse", "render_fields", "split", "value"]

MAX_BYTES = 256 * 1024
"""How large a frontmatter may be."""


class Scalar:
    """One word or text. ``plain`` is True when it was written without quotes, and only then may be a number or null."""

    __slots__ = ("line", "plain", "text")

    def __init__(self, text: str, line: int, *, plain: bool) -> None:
        self.text = text
        self.line = line
        self.plain = plain


class List:
    """Nodes in their order."""

    __slots__ = ("items", "line")

    def __init__(self, items: list[Node], line: int) -> None:
        self.items = items
        self.line = line


class Map:
    """Nodes by their names, in the order in which they stand."""

    __slots__ = ("fields", "line")

    def __init__(self, fields: dict[str, Node], line: int) -> None:
        self.fields = fields
        self.line = line


Node = Scalar | List | Map

_FENCE = re.compile(r"---[ \t]*(?:\n|\Z)")
_CLOSING = re.compile(r"^---[ \t]*(?:\n|\Z)", re.MULTILINE)
# Line breaks to YAML 1.1, text to YAML 1.2.
_SEPARATORS = "\x85\u2028\u2029"
_CONTROLS = re.compile(r"[\x00-\t\x0b-\x1f\x7f]")
_QUOTED = r'"(?:[^"\\]|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4})*"'
_TYPED = r"[0-9](?:[0-9A-Za-z+.:_-]*[0-9A-Za-z+._-])?"
_LINE = re.compile(
    rf"([A-Za-z_][A-Za-z0-9_]{{0,99}}):(?: (?:({_TYPED}|null|true|false)|({_QUOTED})|(\[.*\])|({scalars.PLAIN}))"
    r"|((?:\n  - .*)+))\n"
)
_QUOTED_FORM, _FLOW_FORM, _BLOCK_FORM = 3, 4, 6
_WORD = re.compile(rf"(?:({_TYPED}|null|true|false)|({_QUOTED})|({scalars.PLAIN}))\Z")
_FLOW_ITEM = re.compile(rf"({_QUOTED}|{scalars.FLOW_PLAIN}|[0-9][0-9A-Za-z+._-]*)(?:, (?! )|(?=\]\Z))")
_NO_NAMES = frozenset({"null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE"})
_PLAIN_TAG = "amem:plain"
_TEXT_TAG = "tag:yaml.org,2002:str"
_LIST_TAG = "tag:yaml.org,2002:seq"
_MAP_TAG = "tag:yaml.org,2002:map"


def split(text: str) -> tuple[str, int] | None:
    """Return the frontmatter of a document and the offset at which what follows its closing line begins.

    None when the document's first line is not ``---``. The text has no byte order mark and ends
    its lines with LF.

    Raises:
        FormatError: the frontmatter is opened and never closed, or is too large.
    """
    opening = _FENCE.match(text)
    if opening is None:
        return None
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        fail(1, "the frontmatter is opened by '---' and never closed", "write '---' on a line of its own behind it")
    inside = text[opening.end() : closing.start()]
    if len(inside) > MAX_BYTES or len(inside.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        fail(1, f"the frontmatter is larger than {MAX_BYTES // 1024} KiB", "move text into the body")
    return inside, closing.end()


def parse(text: str, *, first_line: int = 2) -> dict[str, Node]:
    """Return the fields of a frontmatter by name, in their order.

    ``first_line`` is the number of the text's first line in its file.

    Raises:
        FormatError: the text is not a mapping of the form above; ``line`` and ``reason`` in the context.
    """
    fields = scan(text, first_line)
    return load(text, first_line) if fields is None else fields


def value(node: Node) -> Any:
    """Return what a node means: None, a truth, a number, text, a ``Verbatim``, a list or a dict."""
    if isinstance(node, Scalar):
        return scalars.resolve(node.text) if node.plain else node.text
    if isinstance(node, List):
        return [value(item) for item in node.items]
    return {name: value(inner) for name, inner in node.fields.items()}


def fail(line: int, reason: str, hint: str = "", cause: BaseException | None = None) -> NoReturn:
    """Refuse the line of a file, with the reason.

    Raises:
        FormatError: always.
    """
    raise FormatError(f"line {line}: {reason}", hint=hint, line=line, reason=reason) from cause


@cache
def _refused() -> re.Pattern[str]:
    """Return what YAML refuses everywhere, a byte order mark, which some readers drop, and 1.1's line separators."""
    return re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def scan(text: str, first_line: int) -> dict[str, Node] | None:
    """Return what ``load`` returns for a text of the form that amem writes, None for every other text."""
    if _CONTROLS.search(text) or "\\u0000" in text or not (text.isascii() or _refused().search(text) is None):
        return None
    fields: dict[str, Node] = {}
    at, number = 0, first_line
    while at < len(text):
        found = _LINE.match(text, at)
        if found is None:
            return None
        name, form = found[1], found.lastindex or 0
        if name in fields or name in _NO_NAMES:
            return None
        node: Node | None
        if form == _QUOTED_FORM:
            node = Scalar(_unquoted(found[form]), number, plain=False)
        elif form == _FLOW_FORM:
            node = _scan_list(found[form], number)
        elif form == _BLOCK_FORM:
            node = _scan_items(found[form], number)
            number += found[form].count("\n")
        else:
            node = Scalar(found[form], number, plain=True)
        if node is None:
            return None
        fields[name] = node
        at = found.end()
        number += 1
    return fields


def _scan_items(block: str, line: int) -> List | None:
    """Return the list whose items stand below line ``line``, each as a line break, two spaces, a dash and the item."""
    items: list[Node] = []
    for number, item in enumerate(block.split("\n  - ")[1:], line + 1):
        node = _scan_scalar(item, number)
        if node is None:
            return None
        items.append(node)
    # The library says of a list that it begins at its first item.
    return List(items, line + 1)


def _scan_scalar(word: str, line: int) -> Scalar | None:
    found = _WORD.match(word)
    if found is None:
        return None
    return Scalar(word, line, plain=True) if found[2] is None else Scalar(_unquoted(word), line, plain=False)


def _unquoted(word: str) -> str:
    return str(json.loads(word)) if "\\" in word else word[1:-1]


def _scan_list(word: str, line: int) -> List | None:
    items: list[Node] = []
    at, end = 1, len(word) - 1
    if word == "[]":
        return List(items, line)
    if word[end] != "]":
        return None
    while at < end:
        found = _FLOW_ITEM.match(word, at)
        if found is None:
            return None
        item = found[1]
        if item[0] == '"':
            items.append(Scalar(_unquoted(item), line, plain=False))
        elif item[-1] == " ":
            return None
        else:
            items.append(Scalar(item, line, plain=True))
        at = found.end()
    return List(items, line) if at == end and items and not word.endswith(", ]") else None


def load(text: str, first_line: int) -> dict[str, Node]:
    """Return the fields of any frontmatter, by way of the YAML library.

    Raises:
        FormatError: as ``parse``.
    """
    import yaml  # noqa: PLC0415  (lazy: what amem itself wrote needs no YAML library)

    odd = next((found for found in _refused().finditer(text) if found[0] not in _SEPARATORS), None)
    if odd is not None:
        line = first_line + text.count("\n", 0, odd.start())
        fail(line, f"the character U+{ord(odd[0]):04X} may not stand in YAML", "write it as an escape, or remove it")
    text, restore = _shield(text)
    try:
        root = yaml.compose(text, Loader=_loader())
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        hint = "quote the value with \"…\" when it holds ': ' or ' #' or begins with a character of YAML's own"
        fail(first_line + (mark.line if mark else 0), f"not YAML: {exc.problem or exc.context}", hint, exc)
    except yaml.YAMLError as exc:
        fail(first_line, f"not YAML: {exc}", cause=exc)
    if root is None:
        return {}
    node = _Converter(first_line, restore).node(root, 0)
    if not isinstance(node, Map):
        fail(node.line, "the frontmatter is not a mapping of fields", "write one 'name: value' on each line")
    return node.fields


def _shield(text: str) -> tuple[str, Mapping[int, int]]:
    """Put private characters for the line separators of YAML 1.1, which are text in YAML 1.2; return the way back."""
    found = [char for char in _SEPARATORS if char in text]
    if not found:
        return text, {}
    lowered = text.lower()
    # Not one that stands in the text, as itself or as an escape.
    free = (code for code in range(0xE000, 0xF900) if chr(code) not in text and f"{code:x}" not in lowered)
    back = dict(zip(free, map(ord, found), strict=False))
    return text.translate({old: new for new, old in back.items()}), back


@cache
def _loader() -> Any:
    """Return a loader that leaves a plain scalar's meaning open, which differs between the schemas."""
    import yaml  # noqa: PLC0415  (lazy: see load)

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    def resolve(self: Any, kind: Any, text: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return _PLAIN_TAG if implicit[0] else _TEXT_TAG
        return str(base.resolve(self, kind, text, implicit))

    return type("CoreLoader", (base,), {"resolve": resolve})


class _Converter:
    """Turns a YAML library's nodes into ours and refuses what the form excludes."""

    def __init__(self, first_line: int, restore: Mapping[int, int]) -> None:
        self._first = first_line
        self._restore = restore
        self._seen: set[int] = set()

    def node(self, node: Any, depth: int) -> Node:
        line = self._first + node.start_mark.line
        # An alias is the node itself once more. Nested aliases make a page of text billions of values.
        if id(node) in self._seen:
            fail(line, "an alias ('*name') is not allowed: what it stands for was on this line", "write the value out")
        self._seen.add(id(node))
        if depth > MAX_DEPTH:
            fail(line, f"fields nest deeper than {MAX_DEPTH} levels", "write it flatter, or put it into the body")
        if isinstance(node.value, str):
            return self._scalar(node, line)
        if node.tag == _LIST_TAG and node.id == "sequence":
            return List([self.node(item, depth + 1) for item in node.value], line)
        if node.tag == _MAP_TAG and node.id == "mapping":
            return Map(self._fields(node.value, depth), line)
        return self._refuse_tag(node, line)

    def _scalar(self, node: Any, line: int) -> Scalar:
        if node.tag not in (_PLAIN_TAG, _TEXT_TAG):
            self._refuse_tag(node, line)
        if "\0" in node.value:
            fail(line, "a text holds NUL, which is no text", "remove it")
        text = node.value.translate(self._restore) if self._restore else node.value
        return Scalar(text, line, plain=node.tag == _PLAIN_TAG)

    def _fields(self, pairs: list[tuple[Any, Any]], depth: int) -> dict[str, Node]:
        fields: dict[str, Node] = {}
        for key, inner in pairs:
            line = self._first + key.start_mark.line
            name = self.node(key, depth + 1)
            if not isinstance(name, Scalar) or not isinstance(value(name), str) or _is_number(name):
                fail(line, "a field's name is not text", 'quote it with "…"')
            if len(name.text) > MAX_KEY:
                fail(line, f"a field's name has more than {MAX_KEY} characters", "shorten it")
            if name.text in fields:
                fail(line, f"the field {name.text!r} stands twice", "keep one of the two")
            fields[name.text] = self.node(inner, depth + 1)
        return fields

    def _refuse_tag(self, node: Any, line: int) -> NoReturn:
        fail(line, f"the tag {node.tag!r} is not allowed", "write the value without a tag")


def _is_number(name: Scalar) -> bool:
    return name.plain and scalars.number(name.text) is not None
