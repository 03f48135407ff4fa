"""The rows as a person reads them and as a program does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from amem_conformance.faults.rows import Row

FORMAT: Final = "amem-conformance/faults/1"

TABLES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "crash": (
        "Stopped before, within and after each step",
        ("tried", "acknowledged", "found", "absent", "whole", "lost", "half"),
    ),
    "error": (
        "Each step fails, once and until it is mended",
        ("tried", "acknowledged", "found", "refused", "absent", "whole", "lost", "half", "wrong"),
    ),
    "reading": ("A reading whose steps fail", ("tried", "whole", "refused", "half", "wrong")),
    "situation": (
        "What befalls a whole root",
        ("tried", "acknowledged", "found", "whole", "refused", "lost", "half", "wrong"),
    ),
    "power": (
        "The power fails after each step",
        ("tried", "acknowledged", "found", "absent", "whole", "lost", "half"),
    ),
}


def as_text(rows: Sequence[Row]) -> str:
    """Return the tables, and below each what speaks against its rows."""
    lines: list[str] = []
    for table, (title, columns) in TABLES.items():
        own = [row for row in rows if row.table == table]
        if own:
            lines += ["", title, *_lined_up(own, columns)]
            lines += [f"  {row.subject}, {row.fault}: {note}" for row in own for note in row.notes]
    return "\n".join([*lines, "", verdict(rows)]).lstrip("\n") + "\n"


def as_markdown(rows: Sequence[Row]) -> str:
    """Return the tables in Markdown, as the documentation has them."""
    lines: list[str] = []
    for table, (title, columns) in TABLES.items():
        own = [row for row in rows if row.table == table]
        if own:
            heads = ("what", "fault", *columns)
            lines += ["", f"**{title}**", "", f"| {' | '.join(heads)} |", f"| --- | --- {'| ---: ' * len(columns)}|"]
            lines += [f"| {' | '.join(_cells(row, columns))} |" for row in own]
    return "\n".join([*lines, "", verdict(rows)]).lstrip("\n") + "\n"


def as_json(rows: Sequence[Row], backends: Mapping[str, str], *, quick: bool) -> str:
    """Return one JSON document."""
    document = {
        "format": FORMAT,
        "backends": dict(backends),
        "quick": quick,
        "totals": {name: sum(getattr(row, name) for row in rows) for name in _TOTALS},
        "rows": [row.data() for row in rows],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


_TOTALS: Final = ("tried", "acknowledged", "found", "refused", "absent", "whole", "lost", "half", "wrong")


def verdict(rows: Sequence[Row]) -> str:
    """Return what all rows come to, in one line."""
    tried, told, found = (sum(getattr(row, name) for row in rows) for name in ("tried", "acknowledged", "found"))
    lost, half, wrong = (sum(getattr(row, name) for row in rows) for name in ("lost", "half", "wrong"))
    return (
        f"{tried} points: {told} writes acknowledged, {found} of them found;"
        f" {lost} lost, {half} half done, {wrong} answered wrongly"
    )


def _cells(row: Row, columns: Sequence[str]) -> list[str]:
    return [row.subject, row.fault, *(str(getattr(row, name)) for name in columns)]


def _lined_up(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    table = [["", "", *columns], *(_cells(row, columns) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    words, figures = slice(0, -len(columns)), slice(-len(columns), None)
    return [
        "  ".join(
            [
                *map(str.ljust, line[words], widths[words]),
                *map(str.rjust, line[figures], widths[figures]),
            ]
        )
        for line in table
    ]
