"""What every benchmark answers with: one row for each goal, as a figure of ours beside the raw one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Row:
    """One goal's figure: ``ours`` beside ``raw``, in ``unit``, both of the same run."""

    id: str
    goal: str
    ours: float
    raw: float
    unit: str
    better: Literal["lower", "higher"]

    @property
    def ratio(self) -> float:
        """Ours to raw."""
        return self.ours / self.raw if self.raw else float("inf")


def interleave(
    ours: Callable[[], object],
    raw: Callable[[], object],
    *,
    rounds: int = 7,
    calls: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """Return the medians of seconds a call, ours and raw, measured in turns of ``calls`` calls each."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        turns = ((0, ours), (1, raw)) if number % 2 else ((1, raw), (0, ours))
        for which, call in turns:
            begun = clock()
            for _ in range(calls):
                call()
            taken[which].append((clock() - begun) / calls)
    return statistics.median(taken[0]), statistics.median(taken[1])
