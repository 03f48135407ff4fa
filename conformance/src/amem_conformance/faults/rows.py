"""What came of the points that were tried: one row for each action and fault."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from amem_conformance.faults.judging import ABSENT, HALF, LOST, WHOLE

MOST_NOTES: Final = 20


@dataclass
class Row:
    """One row.

    Attributes:
        table: ``crash``, ``error``, ``reading``, ``power`` or ``situation``.
        subject: the action.
        fault: what befell it, such as ``kill -9`` or ``ENOSPC``.
        tried: how many points.
        acknowledged: at how many of them the caller was told that it was done.
        found: of how many of those it was there, whole.
        absent, whole, lost, half: how many points came out so.
        refused: at how many the caller was given an error in amem's words.
        wrong: at how many it got another error, or an answer that was not true.
        notes: what speaks against a point, the first few.
    """

    table: str
    subject: str
    fault: str
    tried: int = 0
    acknowledged: int = 0
    found: int = 0
    absent: int = 0
    whole: int = 0
    lost: int = 0
    half: int = 0
    refused: int = 0
    wrong: int = 0
    notes: list[str] = field(default_factory=list[str])

    @property
    def bad(self) -> int:
        """How many points broke a promise."""
        return self.lost + self.half + self.wrong

    def take(self, outcome: str, *, told: bool, where: str, problems: Iterable[str] = ()) -> None:
        """Take in one point."""
        self.tried += 1
        self.acknowledged += told
        self.found += told and outcome == WHOLE
        self.absent += outcome == ABSENT
        self.whole += outcome == WHOLE
        self.lost += outcome == LOST
        self.half += outcome == HALF
        self.note(where, problems)

    def note(self, where: str, problems: Iterable[str]) -> None:
        """Keep what speaks against a point."""
        self.notes += [f"{where}: {problem}" for problem in problems][: max(0, MOST_NOTES - len(self.notes))]

    def data(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        return asdict(self)


def row_of(data: dict[str, Any]) -> Row:
    """Return the row that ``data`` gave."""
    return Row(**data)
