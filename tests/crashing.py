"""The faults of ``amem_conformance.faults`` in tests: its cases, and the killing of a process at each of its steps.

``killed_at`` counts the steps of the operating system alone; what the process acknowledged before it
died comes back over a pipe.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amem_conformance.faults.children import finished
from amem_conformance.faults.ground import prepared
from amem_conformance.faults.judging import warm
from amem_conformance.faults.running import cases, run
from amem_conformance.faults.steps import look_around, watching
from amem_conformance.faults.stopping import Stopping, kill

if TYPE_CHECKING:
    from collections.abc import Callable

    from amem_conformance.faults.steps import Step


@dataclass(frozen=True)
class Outcome:
    """What became of one child: ``acknowledged`` is what it said it had done, None when it was killed before."""

    killed_at: str | None
    acknowledged: str | None


class OfTheSystem:
    """Passes on the steps of the operating system and no other."""

    def __init__(self, stopping: Stopping) -> None:
        self._stopping = stopping

    def before(self, step: Step) -> None:
        if step.layer == "os":
            self._stopping.before(step)

    def after(self, step: Step) -> None:
        if step.layer == "os":
            self._stopping.after(step)


def killed_at(number: int, action: Callable[[], str], *, after: bool) -> Outcome:
    """Run ``action`` in a child that dies at its ``number``-th step, before the step or ``after`` it."""

    def work(tell):
        def end(step):
            tell(["killed", step.name])
            kill(step)

        with watching(OfTheSystem(Stopping(number, "after" if after else "before", end)), "/"):
            tell(["acknowledged", action()])

    look_around()
    child = finished(work)
    if child.failure is not None:
        message = f"the child failed by itself: {child.failure}"
        raise AssertionError(message)
    told = dict(child.told)
    return Outcome(told.get("killed"), told.get("acknowledged"))


@contextmanager
def prepared_ground():
    """Give a ground on which faults are tried, on the embedded backends."""
    with prepared() as ground:
        warm(ground)
        yield ground


def of(table, fault=None):
    """Return the cases of one table, or those of one fault in it."""
    return [case for case in cases() if case.table == table and fault in {None, case.fault}]


def came_of(ground, case):
    """Try a share of the points of a case, in a process of its own; return its row."""
    (row,) = run(ground, [case], quick=True, jobs=1, heard=lambda _case, _done, _of: None)
    return row
