"""The matrix of a run, for programs (JSON) and for people (Markdown)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from amem_conformance.cells import Cell, Outcome, counts
from amem_core.errors import ConfigError

FORMAT = "amem-conformance/report/1"

_MARKS = {
    Outcome.passed: "pass",
    Outcome.failed: "**FAIL**",
    Outcome.unsupported: "unsupported",
    Outcome.unavailable: "unavailable",
    Outcome.not_run: "not run",
}


def check_target(path: str) -> str:
    """Return ``path`` if a report can be written under that name.

    Raises:
        ConfigError: its suffix is neither ``.json`` nor ``.md``.
    """
    if path.endswith((".json", ".md")):
        return path
    message = f"--amem-report {path}: the suffix says no format"
    raise ConfigError(message, hint="name a file that ends in .json or .md")


def write_report(path: str, cells: Sequence[Cell]) -> None:
    """Write the matrix to ``path``, as JSON or as Markdown by its suffix."""
    text = as_json(cells) if check_target(path).endswith(".json") else as_markdown(cells)
    Path(path).write_text(text, encoding="utf-8")


def as_json(cells: Sequence[Cell]) -> str:
    """Return the cells as one JSON document."""
    document = {
        "format": FORMAT,
        "backends": {
            backend: {str(outcome): number for outcome, number in row.items()} for backend, row in counts(cells).items()
        },
        "cells": [
            {
                "backend": cell.backend,
                "requirement": cell.requirement.id,
                "source": cell.requirement.source,
                "behaviour": cell.requirement.behaviour,
                "outcome": str(cell.outcome),
                "notes": list(cell.notes),
            }
            for cell in cells
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def as_markdown(cells: Sequence[Cell]) -> str:
    """Return the matrix as Markdown: a summary by backend, then a table for each port."""
    lines = ["# Conformance", "", "| backend | " + " | ".join(str(outcome) for outcome in Outcome) + " |"]
    lines.append("| --- " * (1 + len(Outcome)) + "|")
    for backend, row in counts(cells).items():
        lines.append(f"| {backend} | " + " | ".join(str(row[outcome]) for outcome in Outcome) + " |")
    for port in dict.fromkeys(cell.requirement.port for cell in cells):
        lines += ["", *_port_table(port, [cell for cell in cells if cell.requirement.port == port])]
    return "\n".join(lines) + "\n"


def _port_table(port: str, cells: Sequence[Cell]) -> list[str]:
    backends = list(dict.fromkeys(cell.backend for cell in cells))
    found = {(cell.requirement.id, cell.backend): cell for cell in cells}
    lines = [f"## {port}", "", "| requirement | behaviour | " + " | ".join(backends) + " |"]
    lines.append("| --- " * (2 + len(backends)) + "|")
    for requirement in dict.fromkeys(cell.requirement for cell in cells):
        marks = " | ".join(_MARKS[found[requirement.id, backend].outcome] for backend in backends)
        behaviour = requirement.behaviour.replace("|", "\\|")
        lines.append(f"| `{requirement.id}` | {behaviour} | {marks} |")
    return lines
