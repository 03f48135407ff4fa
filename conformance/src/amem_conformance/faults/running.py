"""Which faults there are, and trying them: each case in a process of its own, some at a time."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from amem_conformance.faults.actions import ACTIONS, EXPORT
from amem_conformance.faults.children import Child, Tell, start
from amem_conformance.faults.crashing import CRASH, KILL, Heard, crashed, last
from amem_conformance.faults.failing import failed
from amem_conformance.faults.ground import Ground
from amem_conformance.faults.judging import Action
from amem_conformance.faults.power import POWER, failed_power
from amem_conformance.faults.reading import QUESTIONS, answered
from amem_conformance.faults.rows import Row, row_of
from amem_conformance.faults.situations import SITUATIONS
from amem_conformance.faults.stopping import ERRORS

# How many points of a case a quick run tries at most.
_MOST: Final = {KILL: 36, CRASH: 14, "error": 10, "reading": 24, "power": 18}
_TELLS_EVERY: Final = 0.5


@dataclass(frozen=True, order=True)
class Case:
    """One row to be: a table, what is done, and what befalls it."""

    table: str
    subject: str
    fault: str

    def __str__(self) -> str:
        """Return how progress and tests name it."""
        return f"{self.table}: {self.subject}{', ' * bool(self.fault)}{self.fault}"


def cases() -> list[Case]:
    """Return every case, in the order of the tables."""
    return [
        *(Case("crash", action.name, fault) for action in ACTIONS for fault in (KILL, CRASH)),
        *(Case("error", action.name, fault) for action in ACTIONS for fault in ERRORS),
        *(Case("reading", question.name, fault) for question in QUESTIONS for fault in ERRORS),
        *(Case("situation", name, "") for name in SITUATIONS),
        # What is exported lies outside the root, and is a bundle when its manifest is there.
        *(Case("power", action.name, POWER) for action in ACTIONS if action.name != EXPORT),
    ]


def tried(ground: Ground, case: Case, *, quick: bool, heard: Heard) -> Row:
    """Try every point of a case, in this process and in those that it forks."""
    most = _MOST.get(case.fault, _MOST.get(case.table)) if quick else None
    if case.table == "crash":
        return crashed(ground, _action(case), case.fault, most=most, heard=heard)
    if case.table == "error":
        return failed(ground, _action(case), case.fault, most=most, heard=heard)
    if case.table == "reading":
        question = next(question for question in QUESTIONS if question.name == case.subject)
        return answered(ground, question, case.fault, most=most, heard=heard)
    if case.table == "power":
        return failed_power(ground, _action(case), most=most, heard=heard)
    return SITUATIONS[case.subject](ground, quick=quick, heard=heard)


def _action(case: Case) -> Action:
    return next(action for action in ACTIONS if action.name == case.subject)


def run(
    ground: Ground, chosen: list[Case], *, quick: bool, jobs: int, heard: Callable[[Case, int, int], None]
) -> Iterator[Row]:
    """Try the cases, ``jobs`` at a time, and yield a row for each as it is done.

    Where places cannot be copied they share what is behind the harness: then one after the other, here.
    """
    if not ground.copied:
        for case in chosen:
            yield tried(ground, case, quick=quick, heard=partial(heard, case))
        return
    waiting = list(reversed(chosen))
    with selectors.DefaultSelector() as selector:
        while waiting or selector.get_map():
            while waiting and len(selector.get_map()) < jobs:
                case = waiting.pop()
                child = start(partial(_work, ground, case, quick))
                selector.register(child.pipe, selectors.EVENT_READ, (case, child))
            for key, _ in selector.select():
                case, child = key.data
                selector.unregister(child.pipe)
                if child.take():
                    selector.register(child.pipe, selectors.EVENT_READ, (case, child))
                    _pass_on(case, child, heard)
                else:
                    yield _row(case, child)


def _work(ground: Ground, case: Case, quick: bool, tell: Tell) -> None:  # noqa: FBT001  (bound by position)
    last = 0.0

    def heard(done: int, of: int) -> None:
        nonlocal last
        if time.monotonic() - last > _TELLS_EVERY:
            last = time.monotonic()
            tell({"done": done, "of": of})

    tell({"row": tried(ground, case, quick=quick, heard=heard).data()})


def _pass_on(case: Case, child: Child, heard: Callable[[Case, int, int], None]) -> None:
    for told in child.told:
        if "done" in told:
            heard(case, told["done"], told["of"])
    child.told = [told for told in child.told if "done" not in told]


def _row(case: Case, child: Child) -> Row:
    told = last(child, "row")
    if child.failure is None and told is not None:
        return row_of(told["row"])
    return Row(case.table, case.subject, case.fault, wrong=1, notes=[f"it was not tried to its end: {child.failure}"])
