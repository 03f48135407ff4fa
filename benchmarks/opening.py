"""O1: opening a root and searching once, at 100,000 entries beside 1,000: nothing is scanned, so the two cost the same.

Wall time of ``Memory.open``, a session, one search and closing, in turns; the search is for a word that one
entry has. ``python -m benchmarks opening`` prints it. Tests count what is read and listed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

from amem_core import Draft, Memory
from benchmarks.harness import Row, interleave

FEW = 1_000
MANY = 100_000
_GROUP = 1_000
_BODY = "A paragraph of an ordinary length, as an agent would write it down. "


def rows(scale: float = 1.0) -> list[Row]:
    """Return the rows of O1; ``scale`` multiplies the entries of the larger root and the rounds."""
    many = max(2 * FEW, int(MANY * scale))
    with tempfile.TemporaryDirectory() as top:
        small, large = _filled(os.path.join(top, "small"), FEW), _filled(os.path.join(top, "large"), many)
        rounds = max(7, int(15 * scale))
        searched = interleave(_searched(large), _searched(small), rounds=rounds, calls=5)
        shown = interleave(_shown(large), _shown(small), rounds=rounds, calls=5)
    return [
        Row("O1", f"open: first search at {many} entries beside {FEW}: near 1", *_ms(searched), "ms", "lower"),
        Row("O1 t0", f"open: first t0 at {many} entries beside {FEW}: near 1", *_ms(shown), "ms", "lower"),
    ]


def _filled(root: str, count: int) -> str:
    Memory.init(root, domain="notes")
    with Memory.open(root) as memory, memory.session(author="owner") as session:
        session.write(Draft(domain="notes", type="fact", title="Zebra", summary="It has stripes."))
        for begin in range(1, count, _GROUP):
            drafts = [
                Draft(domain="notes", type="fact", title=f"Fact {number}", summary=f"about {number}", body=_BODY)
                for number in range(begin, min(begin + _GROUP, count))
            ]
            session.write_many(drafts)
    return root


def _searched(root: str) -> Callable[[], object]:
    def call() -> None:
        with Memory.open(root) as memory, memory.session(author="owner") as session:
            session.search("zebra")

    return call


def _shown(root: str) -> Callable[[], object]:
    def call() -> None:
        with Memory.open(root) as memory, memory.session(author="owner") as session:
            session.t0()

    return call


def _ms(seconds: tuple[float, float]) -> tuple[float, float]:
    return seconds[0] * 1e3, seconds[1] * 1e3
