"""Ordinary Markdown documents, cut into the sections that ``amem ingest`` makes entries of."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from amem_core.errors import FormatError
from amem_core.format import scalars
from amem_core.format.checks import MAX_LINE, one_line
from amem_core.format.frontmatter import List, Node, Scalar, parse, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_SUMMARY = 300
"""How many characters the summary of a section may have."""

_TOP = "_top"
_MAX_SLUG = 80
_NEWLINE = re.compile(r"\r\n?")
# Pandoc's rule: a line '---' with an empty line behind it is a rule across the page.
_RULE = re.compile(r"---[ \t]*\n[ \t]*(?:\n|\Z)")
_SPACE = re.compile(r"\s+")
_NO_SLUG = re.compile(r"[^\w\- ]+")
_SENTENCE = re.compile(r".+?(?:[.!?…]+[\"'”’)\]]*(?=\s|\Z)|[。！？]+[」』”’）]*|\Z)", re.DOTALL)  # noqa: RUF001  (the marks of other scripts are meant)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_WEB = re.compile(r"https?://", re.IGNORECASE)
# A mark that belongs to the character before it: joiners, variation selectors, skin tones, accents.
_JOINED = re.compile(r"[\u0300-\u036f\u200d\u20d0-\u20ff\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
# Titles that say nothing without the document that they stand in.
_GENERIC = frozenset(
    {
        "about", "abstract", "api", "appendix", "background", "changelog", "conclusion", "conclusions", "configuration",
        "context", "contributing", "credits", "description", "details", "discussion", "example", "examples", "faq",
        "features", "further reading", "general", "getting started", "goals", "install", "installation", "introduction",
        "issues", "license", "links", "motivation", "notes", "options", "other", "overview", "prerequisites", "purpose",
        "quick start", "quickstart", "readme", "references", "related", "requirements", "result", "results", "scope",
        "see also", "setup", "status", "summary", "tests", "todo", "troubleshooting", "usage",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a document.

    Attributes:
        anchor: names the section within its document, and keeps naming it while its heading, its
            parents' and those of sections of the same name before it stay.
        title: the heading as plain text; never empty.
        level: 1 to 6; 0 for what stands before the first heading.
        parents: the titles of the headings that enclose it, outermost first.
        body: the source below the heading up to the next heading of any level, without empty lines
            around it, ending in LF; empty for a heading with no text.
        summary: at most ``MAX_SUMMARY`` characters that stand alone; never empty.
        links: the relative paths and web addresses that the section links to, each once, in order.
        line: where the section begins, counted from 1 in the document.
        document: the document's title.
        tags: the document's tags.
        aliases: the document's aliases, on its first section only.
    """

    anchor: str
    title: str
    level: int
    parents: tuple[str, ...]
    body: str
    summary: str
    links: tuple[str, ...]
    line: int
    document: str
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


@dataclass(slots=True)
class _Heading:
    """A heading and the lines from it to the next, as found; ``first`` is the first line of its text."""

    level: int
    start: int
    first: int
    end: int
    title: str = ""
    own: Any = None
    inlines: list[Any] = field(default_factory=list[Any])
    code: str = ""


def sections(text: str, *, name: str) -> list[Section]:
    """Return the sections of one Markdown document, in their order.

    ``name`` is the document's file name; without its extension it is the document's title when
    neither the frontmatter nor a first heading of level 1 gives one. A byte order mark is dropped
    and every line ending is LF. Headings within quotes, lists and code are text. All text between
    headings is in exactly one section; a heading with none is a section of its own unless the next
    heading is deeper, which then names it among its parents. A document with no text has no section.

    Raises:
        FormatError: its frontmatter cannot be read; ``path``, ``line`` and ``reason`` in the context.
    """
    text = _NEWLINE.sub("\n", text.removeprefix("\ufeff"))
    fields, source = _frontmatter(text, name)
    offset = text.count("\n", 0, len(text) - len(source))
    lines = source.split("\n")
    headings = _headings(source, len(lines))
    document = _title(fields, headings, name)
    found = list(_sections(headings, lines, document, offset, _strings(fields.get("tags"))))
    aliases = _strings(fields.get("aliases"))
    if found and aliases:
        found[0] = replace(found[0], aliases=aliases)
    return found


def _frontmatter(text: str, name: str) -> tuple[dict[str, Node], str]:
    if _RULE.match(text):
        return {}, text
    try:
        parts = split(text)
        if parts is None:
            return {}, text
        front, end = parts
        return parse(front), text[end:]
    except FormatError as exc:
        raise FormatError(f"{name}, {exc}", hint=exc.hint, path=name, **exc.context) from exc


def _headings(source: str, count: int) -> list[_Heading]:
    """Return the top-level headings behind one that stands for the text before the first."""
    from markdown_it import MarkdownIt  # noqa: PLC0415  (lazy: only ingest reads documents)

    current = _Heading(0, 0, 0, count)
    headings = [current]
    tokens = MarkdownIt("commonmark").enable("table").parse(source)
    for at, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map:
            start, first = token.map
            current.end = start
            own = tokens[at + 1]
            current = _Heading(int(token.tag[1:]), start, first, count, _plain(own), own)
            headings.append(current)
        elif token.type == "inline" and token is not current.own:
            current.inlines.append(token)
        elif token.type in ("fence", "code_block") and not current.code:
            current.code = token.content
    return headings


def _title(fields: dict[str, Node], headings: list[_Heading], name: str) -> str:
    node = fields.get("title")
    if isinstance(node, Scalar) and not (node.plain and scalars.is_null(node.text)):
        stated = one_line(node.text).strip()
        if stated:
            return _short(stated, MAX_LINE)
    if len(headings) > 1 and headings[1].level == 1 and headings[1].title:
        return _short(headings[1].title, MAX_LINE)
    stem = name.replace("\\", "/").rsplit("/", 1)[-1]
    stem = stem.rsplit(".", 1)[0] or stem
    return _short(one_line(stem).strip(), MAX_LINE) or "untitled"


def _strings(node: Node | None) -> tuple[str, ...]:
    """Return the texts of a list, or of one value alone; whatever is no text is left out."""
    items: list[Node] = [] if node is None else node.items if isinstance(node, List) else [node]
    texts = [
        one_line(item.text).strip()
        for item in items
        if isinstance(item, Scalar) and not (item.plain and scalars.is_null(item.text))
    ]
    return tuple(dict.fromkeys(text for text in texts if text and len(text) <= MAX_LINE))


def _sections(
    headings: list[_Heading], lines: list[str], document: str, offset: int, tags: tuple[str, ...]
) -> Iterator[Section]:
    enclosing: list[tuple[int, str, str]] = []
    anchors: set[str] = set()
    times = Counter(heading.title.lower() for heading in headings)
    for at, heading in enumerate(headings):
        title = _short(heading.title or document, MAX_LINE)
        while enclosing and enclosing[-1][0] >= heading.level:
            enclosing.pop()
        prefix = f"{enclosing[-1][2]}/" if enclosing else ""
        anchor = _unique(prefix + _slug(title), anchors) if heading.level else _unique(_TOP, anchors)
        start, body = _body(heading, lines)
        deeper = at + 1 < len(headings) and headings[at + 1].level > heading.level
        if body or (heading.level and not deeper):
            alone = heading.level == 0 or (title.lower() not in _GENERIC and times[heading.title.lower()] == 1)
            yield Section(
                anchor=anchor,
                title=title,
                level=heading.level,
                parents=tuple(parent for _, parent, _ in enclosing),
                # A heading too long for a title is kept whole in the text.
                body=body if len(heading.title) <= MAX_LINE else f"{heading.title}\n\n{body}",
                summary=_summary(heading, title, document, alone=alone),
                links=tuple(_links([heading.own, *heading.inlines] if heading.own else heading.inlines)),
                line=offset + (heading.start if heading.level else start) + 1,
                document=document,
                tags=tags,
            )
        if heading.level:
            enclosing.append((heading.level, title, anchor))


def _body(heading: _Heading, lines: list[str]) -> tuple[int, str]:
    start, end = heading.first, heading.end
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return start, "\n".join(lines[start:end]) + "\n" if end > start else ""


def _summary(heading: _Heading, title: str, document: str, *, alone: bool) -> str:
    text = _start(heading)
    if not text:
        # Code says little, and a heading alone nothing, without its place.
        text, alone = _SPACE.sub(" ", heading.code[: 2 * MAX_SUMMARY]).strip(), False
    if alone:
        lead = ""
    else:
        lead = _short(title, 80) if title == document else f"{_short(document, 80)}, {_short(title, 80)}"
        lead += ": " if text else ""
    room = MAX_SUMMARY - len(lead)
    summary = ""
    for sentence in _SENTENCE.finditer(text):
        if len(summary) + len(sentence[0]) > room:
            break
        summary += sentence[0]
    return lead + (summary.strip() or _short(text, room))


def _start(heading: _Heading) -> str:
    """Return the first plain text of a section, as much as a summary may need."""
    text = ""
    for inline in heading.inlines:
        text += " " + _plain(inline)
        if len(text) > 2 * MAX_SUMMARY:
            break
    return text[: 2 * MAX_SUMMARY].strip()


def _short(text: str, room: int) -> str:
    """Return ``text``, cut at a word and between whole characters when it is longer than ``room``."""
    if len(text) <= room:
        return text
    cut = room - 1
    space = text.rfind(" ", room // 2, cut + 1)
    if space > 0:
        cut = space
    else:
        while cut > 1 and (_JOINED.match(text[cut]) or text[cut - 1] == "\u200d"):
            cut -= 1
    return text[:cut].rstrip() + "…"


def _plain(inline: Any) -> str:
    parts: list[str] = []
    for token in inline.children or ():
        if token.type in ("text", "code_inline", "text_special"):
            parts.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif token.type == "image":
            parts.append(_plain(token))
    return _SPACE.sub(" ", "".join(parts)).strip()


def _links(inlines: Iterable[Any]) -> dict[str, None]:
    targets: dict[str, None] = {}
    for inline in inlines:
        for token in inline.children or ():
            target = token.attrs.get("href") or token.attrs.get("src")
            if isinstance(target, str) and (kept := _target(target)):
                targets[kept] = None
    return targets


def _target(address: str) -> str:
    """Return a web address as it is, a relative path without its escapes, and nothing for the rest."""
    if _WEB.match(address):
        return address
    if _SCHEME.match(address) or address.startswith(("#", "//")):
        return ""
    from urllib.parse import unquote  # noqa: PLC0415  (lazy: costly to import, and few need it)

    return unquote(address)


def _slug(title: str) -> str:
    from unicodedata import normalize  # noqa: PLC0415  (lazy: with the rest of ingest)

    words = _NO_SLUG.sub("", normalize("NFC", title).lower()).strip(" -_")
    return _SPACE.sub("-", words)[:_MAX_SLUG].strip("-_") or "section"


def _unique(anchor: str, taken: set[str]) -> str:
    name, number = anchor, 1
    while name in taken:
        number += 1
        name = f"{anchor}-{number}"
    taken.add(name)
    return name
