"""Letting each step of an action fail with an error of the system, once, and for good until it is mended."""

from __future__ import annotations

from typing import Any, Final

from amem_conformance.faults.children import Tell, finished
from amem_conformance.faults.crashing import Heard, all_steps, last, spread
from amem_conformance.faults.ground import DOMAIN, Ground, Place, opened
from amem_conformance.faults.judging import HALF, LOST, Action, described, judge
from amem_conformance.faults.rows import Row
from amem_conformance.faults.steps import install, watching
from amem_conformance.faults.stopping import Failing, befalls
from amem_core import Draft, Memory
from amem_core.errors import DeniedError, UnavailableError

ONCE: Final = "once"
LASTING: Final = "until mended"
_UNREAD: Final = "cannot be read"


def failed(ground: Ground, action: Action, kind: str, *, most: int | None = None, heard: Heard) -> Row:
    """Let the points of ``action``, or ``most`` of them, fail with ``kind``, and return what came of them."""
    install()
    row = Row("error", action.name, kind)
    steps = [step for step in all_steps(ground, action) if befalls(kind, step)]
    points = spread([(number, lasting) for number in range(1, len(steps) + 1) for lasting in (False, True)], most)
    for done, (number, lasting) in enumerate(points):
        heard(done, len(points))
        _try(ground, action, kind, number, row, lasting=lasting)
    heard(len(points), len(points))
    return row


def _try(ground: Ground, action: Action, kind: str, number: int, row: Row, *, lasting: bool) -> None:
    place = ground.place()
    child = finished(lambda tell: _fail(place, action, Failing(number, kind, lasting=lasting), tell))
    place.remove()
    at, verdict = last(child, "at"), last(child, "outcome")
    told = last(child, "promised") is not None
    problems: list[str] = [*(verdict["problems"] if verdict else []), *([child.failure] if child.failure else [])]
    outcome = verdict["outcome"] if verdict else (LOST if told else HALF)
    answered = last(child, "refused")
    row.refused += answered is not None and not answered["untrue"]
    row.wrong += answered is not None and answered["untrue"]
    if answered is not None and answered["untrue"]:
        problems.insert(0, f"the caller gets {answered['refused']}")
    when = LASTING if lasting else ONCE
    row.take(outcome, told=told, where=f"{when} at {at['at'] if at else 'no step of this run'}", problems=problems)


def _fail(place: Place, action: Action, failing: Failing, tell: Tell) -> None:
    action.prepare(place)
    memory: Memory | None = None
    promised: Any = None
    with watching(failing, place.directory):
        try:
            memory = opened(place)
            promised = action.act(memory.session(author="owner"), place)
            tell({"promised": promised})
        except Exception as error:  # noqa: BLE001  (which kind it is, is the question)
            tell({"refused": described(error), "untrue": untrue(error)})
    tell({"at": str(failing.reached)})
    problems = [] if memory is None else [*goes_on(memory)]
    if memory is not None:
        memory.close()
    outcome, found = judge(place, action, promised or {}, told=promised is not None)
    problems += found
    tell({"outcome": outcome if not problems or outcome == LOST else HALF, "problems": problems})


def untrue(error: Exception) -> bool:
    """Return whether an error says anything but that something could not be done just now.

    What is not amem's own is a fault that crossed a port. One that says that a thing is not there, or
    damaged, or configured wrongly, says so of what merely could not be read. A policy that cannot read
    what it rests on denies, as it must, and says why.
    """
    if isinstance(error, DeniedError):
        return _UNREAD not in str(error)
    return not isinstance(error, UnavailableError)


def goes_on(memory: Memory) -> list[str]:
    """Write with the same memory, now that all is mended; return what it met."""
    try:
        with memory.session(author="owner") as session:
            draft = Draft(domain=DOMAIN, type="fact", title="Mended", summary="what comes when all is mended")
            written = session.write(draft)
            if session.get(written.id).digest != written.digest:
                return ["mended, the same memory reads otherwise than it wrote"]
    except Exception as error:  # noqa: BLE001  (it is what the caller would have met)
        return [f"mended, the same memory meets {described(error)}"]
    return []
