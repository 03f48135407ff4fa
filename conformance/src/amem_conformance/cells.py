"""The outcome of each (requirement, backend) cell, joined from the tests that exercise it.

Cells come from the manifest, not from what happened to run: a requirement that no test of this run
touched is shown as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from amem_conformance.manifest import Requirement, requirements


class Outcome(IntEnum):
    """What is known of one cell, the worst last: a cell takes the worst of its tests."""

    not_run = 0
    passed = 1
    unsupported = 2
    unavailable = 3
    failed = 4

    def __str__(self) -> str:
        return self.name.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Cell:
    """One requirement, one backend, and what came out."""

    backend: str
    requirement: Requirement
    outcome: Outcome
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Tally:
    """Collects outcomes as tests report."""

    outcomes: dict[tuple[str, str], Outcome] = field(default_factory=dict[tuple[str, str], Outcome])
    notes: dict[tuple[str, str], list[str]] = field(default_factory=dict[tuple[str, str], list[str]])

    def record(self, backend: str, ids: Iterable[str], outcome: Outcome, note: str = "") -> None:
        """Take one test's outcome for each requirement that it cites."""
        for id in ids:
            key = (backend, id)
            self.outcomes[key] = max(outcome, self.outcomes.get(key, Outcome.not_run))
            notes = self.notes.setdefault(key, [])
            if note and note not in notes:
                notes.append(note)

    def cells(self, backends: Iterable[str]) -> list[Cell]:
        """Return every cell of the backends, by backend and in the manifest's order."""
        return [
            Cell(
                backend,
                requirement,
                self.outcomes.get((backend, requirement.id), Outcome.not_run),
                tuple(self.notes.get((backend, requirement.id), ())),
            )
            for backend in backends
            for requirement in requirements(backend.partition(".")[0])
        ]


def missing_flags(requirement: Requirement, capabilities: object) -> tuple[str, ...]:
    """Return the flags that the requirement needs and the backend does not declare, sorted."""
    return tuple(sorted(flag for flag in requirement.needs if not getattr(capabilities, flag, False)))


def counts(cells: Iterable[Cell]) -> Mapping[str, Mapping[Outcome, int]]:
    """Return, for each backend, how many cells have each outcome."""
    table: dict[str, dict[Outcome, int]] = {}
    for cell in cells:
        row = table.setdefault(cell.backend, dict.fromkeys(Outcome, 0))
        row[cell.outcome] += 1
    return table
