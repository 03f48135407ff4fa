"""Stopping an action at each of its steps, by a death of its process and by an exception that nothing may catch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from amem_conformance.faults import stopping
from amem_conformance.faults.children import Child, Tell, finished
from amem_conformance.faults.ground import Ground, Place, opened
from amem_conformance.faults.judging import HALF, LOST, Action, judge
from amem_conformance.faults.rows import Row
from amem_conformance.faults.steps import Step, install, watching
from amem_conformance.faults.stopping import Counting, Crash, Stopping, When

KILL: Final = "kill -9"
CRASH: Final = "exception"
_REBUILDS: Final = 4

Point = TypeVar("Point")
Heard = Callable[[int, int], None]
"""Told how many points are done, and how many there are."""


def crashed(ground: Ground, action: Action, fault: str, *, most: int | None = None, heard: Heard) -> Row:
    """Try the points of ``action`` on a fresh place each, and return what came of them.

    With ``most`` it is no more than so many of them, spread evenly, without those that are after a step
    and before the next one, which is the same to the disk, and with fewer rebuilds in their judgement.
    """
    install()
    row = Row("crash", action.name, fault)
    points = list(_points([step for step in all_steps(ground, action) if step.changes]))
    if most is not None:
        points = spread([point for point in points[:-1] if point[1] != "after"] + points[-1:], most)
    for done, point in enumerate(points):
        heard(done, len(points))
        _try(ground, action, point, row, rebuild=most is None or done % _REBUILDS == 0)
    heard(len(points), len(points))
    return row


def spread(points: Sequence[Point], most: int | None) -> list[Point]:
    """Return ``most`` of the points, spread evenly and with the last among them; all of them for None."""
    if most is None or len(points) <= most:
        return list(points)
    return [points[number * (len(points) - 1) // (most - 1)] for number in range(most)]


def all_steps(ground: Ground, action: Action) -> list[Step]:
    """Return the steps of ``action``, in order."""
    place = ground.place()

    def work(tell: Tell) -> None:
        counting = Counting()
        _act(place, action, counting, lambda _: None)
        tell(steps_as_json(counting))

    child = finished(work)
    place.remove()
    if child.failure is not None:
        message = f"{action.name} does not succeed where nothing fails: {child.failure}"
        raise AssertionError(message)
    return steps_of_json(child.told[-1])


def steps_as_json(counting: Counting) -> list[Any]:
    """Return the steps that were counted as JSON has them."""
    return [[step.layer, step.name, step.place, step.changes, step.partly is not None] for step in counting.steps]


def steps_of_json(steps: list[Any]) -> list[Step]:
    """Return the steps that ``steps_as_json`` gave; of half a step, only that there is one is kept."""
    return [Step(layer, name, at, changes, _nothing if partly else None) for layer, name, at, changes, partly in steps]


def _nothing() -> None:
    """Stand in for half a step."""


def _points(steps: list[Step]) -> Iterator[tuple[int, When]]:
    for number, step in enumerate(steps, 1):
        yield number, "before"
        if step.partly is not None:
            yield number, "within"
        yield number, "after"


def _act(place: Place, action: Action, watch: Any, tell: Callable[[Any], None]) -> None:
    action.prepare(place)
    with watching(watch, place.directory), opened(place) as memory, memory.session(author="owner") as session:
        promised = action.act(session, place)
        # The caller is told here; what comes behind is the closing.
        tell({"promised": promised})


def _try(ground: Ground, action: Action, point: tuple[int, When], row: Row, *, rebuild: bool) -> None:
    number, when = point
    place = ground.place()
    if row.fault == KILL:
        child = finished(partial(_kill, place, action, point))
        judged = finished(partial(_judge, place, action, _promised(child), rebuild))
    else:
        child = judged = finished(partial(_crash, place, action, point, rebuild))
    told = _promised(child) is not None
    problems = [str(each.failure) for each in (child, judged) if each.failure is not None]
    verdict = last(judged, "outcome")
    outcome = verdict["outcome"] if verdict else (LOST if told else HALF)
    if problems and outcome not in {LOST, HALF}:
        outcome = HALF
    problems += verdict["problems"] if verdict else []
    at = last(child, "at")
    where = f"{when} step {number}, {at['at']}" if at else f"step {number}, which this run did not reach"
    row.take(outcome, told=told, where=where, problems=dict.fromkeys(problems))
    place.remove()


def _kill(place: Place, action: Action, point: tuple[int, When], tell: Tell) -> None:
    def end(step: Step) -> None:
        tell({"at": str(step)})
        stopping.kill(step)

    _act(place, action, Stopping(*point, end), tell)


def _crash(place: Place, action: Action, point: tuple[int, When], rebuild: bool, tell: Tell) -> None:  # noqa: FBT001  (bound)
    """Crash in this process, which then goes on with a memory that it opens anew; the old one is left as it is."""

    def end(step: Step) -> None:
        tell({"at": str(step)})
        stopping.crash(step)

    action.prepare(place)
    stopped = Stopping(*point, end)
    promised: list[Any] = []
    memory = opened(place)
    try:
        with watching(stopped, place.directory):
            session = memory.session(author="owner")
            promised.append(action.act(session, place))
            tell({"promised": promised[0]})
            if stopped.reached:
                message = "the exception was caught by somebody who went on"
                raise AssertionError(message)
    except Crash:
        pass
    _judge(place, action, promised[0] if promised else None, rebuild, tell)


def _judge(place: Place, action: Action, promised: Any, rebuild: bool, tell: Tell) -> None:  # noqa: FBT001  (bound)
    outcome, problems = judge(place, action, promised or {}, told=promised is not None, rebuild=rebuild)
    tell({"outcome": outcome, "problems": problems})


def _promised(child: Child) -> Any:
    told = last(child, "promised")
    return None if told is None else told["promised"]


def last(child: Child, key: str) -> Any:
    """Return the last of what the child told under ``key``."""
    told: list[Any] = child.told
    return next((each for each in reversed(told) if key in each), None)
