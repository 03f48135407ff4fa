"""The pages of the documentation as what can be run: their code blocks, their links and their headings.

What a block is, its first line says:

- ``sh`` is run by bash, and every command of it must succeed;
- ``console`` holds commands behind ``$ `` and, below each, what it prints: ``…`` stands for any text in
  a line, a line of ``…`` alone for any lines. A command must succeed unless what is shown is an error of
  amem (a line that begins with ``amem: ``);
- ``python`` is run as a program of its own;
- ``toml``, ``json`` and ``yaml`` are parsed; ``toml amem.toml`` and ``toml grants.toml`` are also read by amem;
- a block without a word, ``text`` and ``markdown`` are for readers.

The blocks of one page are run in order, in one shell and one home. ``not-run (reason)`` behind the language keeps one out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
RUN = {"sh", "console", "python"}
PARSED = {"toml", "json", "yaml"}
# SQL is run by the tests of the ledger in PostgreSQL, which have a server.
SHOWN = {"", "text", "markdown", "sql"}
ANYTHING = "…"
_OPEN = re.compile(r"^(?P<indent> {0,3})(?P<mark>`{3,}|~{3,})(?P<info>[^`\n]*)$")
_NOT_RUN = re.compile(r"not-run(?: \((?P<reason>[^()]+)\))?")
_LINK = re.compile(r"(?<!!)\[(?:[^\]\[]|\[[^\]]*\])*\]\((?P<target>[^()\s]+)(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One code block of a page; ``line`` is where it begins."""

    page: str
    line: int
    language: str
    info: str
    text: str

    @property
    def skipped(self) -> bool:
        """Whether it says that it is not run."""
        return _NOT_RUN.search(self.info) is not None

    @property
    def reason(self) -> str:
        """Why it is not run; empty when it does not say."""
        found = _NOT_RUN.search(self.info)
        return (found["reason"] or "").strip() if found else ""

    def __str__(self) -> str:
        """Name it for a test's report."""
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Return the pages, below the repository: the README and everything in docs."""
    return ["README.md", *sorted(str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "docs").rglob("*.md"))]


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """Return the code blocks of a page, in order."""
    found: list[Block] = []
    lines = (REPOSITORY / page).read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        opening = _OPEN.match(lines[number])
        number += 1
        if opening is None:
            continue
        start, text = number, list[str]()
        while number < len(lines) and not re.fullmatch(rf" {{0,3}}{re.escape(opening['mark'])}+ *", lines[number]):
            text.append(lines[number].removeprefix(opening["indent"]))
            number += 1
        assert number < len(lines), f"{page}:{start}: the block does not end"
        number += 1
        language, _, info = opening["info"].strip().partition(" ")
        found.append(Block(page, start, language, info.strip(), "\n".join(text) + "\n"))
    return tuple(found)


def prose(page: str) -> str:
    """Return a page without its code blocks and code spans."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    text = re.sub(r"^ {0,3}(`{3,}|~{3,}).*?^ {0,3}\1`*~* *$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "code", text)


def links(page: str) -> list[str]:
    """Return what a page links to, but for other hosts."""
    return [
        found["target"]
        for found in _LINK.finditer(prose(page))
        if not re.match(r"[a-z][a-z+.-]*:", found["target"], re.IGNORECASE)
    ]


@cache
def anchors(page: str) -> frozenset[str]:
    """Return the anchors that a page's headings make."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    text = re.sub(r"^ {0,3}(`{3,}|~{3,}).*?^ {0,3}\1`*~* *$", "", text, flags=re.MULTILINE | re.DOTALL)
    made: dict[str, int] = {}
    found: set[str] = set()
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        times = made.get(slug, 0)
        made[slug] = times + 1
        found.add(f"{slug}-{times}" if times else slug)
    return frozenset(found)


@dataclass(frozen=True)
class Command:
    """One command of a ``console`` block and the lines that it is shown to print."""

    text: str
    expected: tuple[str, ...]
    may_fail: bool


def commands(block: Block) -> list[Command]:
    """Return the commands of a ``console`` block; a line that ends in a backslash goes on in the next."""
    found: list[Command] = []
    text: list[str] = []
    shown: list[str] = []

    def keep() -> None:
        if text:
            found.append(Command("\n".join(text), tuple(shown), any(line.startswith("amem: ") for line in shown)))

    for line in block.text.splitlines():
        if text and not shown and text[-1].endswith("\\"):
            text.append(line)
        elif line.startswith("$ "):
            keep()
            text, shown = [line[2:]], []
        else:
            assert text, f"{block}: a console block begins with a command behind '$ '"
            shown.append(line)
    keep()
    return found


def matches(expected: tuple[str, ...], printed: list[str]) -> bool:
    """Return whether what was printed is what is shown, ``…`` standing for anything."""
    lines = []
    for line in expected:
        if line.strip() == ANYTHING:
            lines.append(r"(?:[^\n]*\n)*")
        else:
            lines.append("[^\n]*".join(re.escape(part) for part in line.rstrip().split(ANYTHING)) + r" *\n")
    return re.fullmatch("".join(lines), "".join(f"{line}\n" for line in printed)) is not None
