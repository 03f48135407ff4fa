"""The order of the seven steps, and what is told of each."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

from amem_core.errors import AmemError
from amem_launcher.commands.demo.agent import agent
from amem_launcher.commands.demo.promises import promise
from amem_launcher.commands.demo.rebuilding import rebuild
from amem_launcher.commands.demo.remembering import begin, go_on, hand_over, look_up
from amem_launcher.commands.demo.stage import StepError
from amem_launcher.commands.demo.travelling import travel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from amem_launcher.commands.demo.agent import Agent
    from amem_launcher.commands.demo.evidence import Evidence, WentOn
    from amem_launcher.commands.demo.material import Material
    from amem_launcher.commands.demo.stage import Stage

NAMES = (
    "init makes a domain with a grants file",
    "a session writes a decision and a handoff over MCP, and ends",
    "a fresh session reads T0, finds the handoff and goes on",
    "search ranks by BM25 and shows summaries first, get returns one body",
    "a task has one holder at a time, and whoever lost its lease cannot write to it",
    "a bundle lands at raw, and what is wrong with one is refused",
    "with the SQLite files deleted, index and ledger come back and every answer is the same",
)

_P = ParamSpec("_P")
_E = TypeVar("_E", bound="Evidence")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one step. ``problem`` says what does not hold; it is empty when everything does."""

    number: int
    name: str
    seconds: float
    problem: str
    evidence: Evidence | None

    def lines(self) -> list[str]:
        """Return what a person reads: the step, whether it holds, and its evidence."""
        head = f"{self.number}. {self.name} … {'FAILED' if self.problem else 'ok'}"
        shown = [self.problem] if self.evidence is None else self.evidence.lines()
        return [head, *(f"   {line}" for line in shown)]


async def play(stage: Stage, material: Material, tell: Callable[[Outcome], None]) -> bool:
    """Play the steps until one does not hold; return whether all do. ``tell`` is called after each."""
    number = 0

    async def attempt(step: Awaitable[_E]) -> _E | None:
        """Return the step's evidence, or None when it does not hold."""
        nonlocal number
        number += 1
        start = time.monotonic()
        evidence, problem = None, ""
        try:
            evidence = await step
        except Exception as error:  # noqa: BLE001  (whatever it is, the step that it stopped is named)
            problem = _problem(error)
        tell(Outcome(number, NAMES[number - 1], round(time.monotonic() - start, 3), problem, evidence))
        return evidence

    if await attempt(_at_once(begin, stage, material)) is None:
        return False
    handed = await attempt(hand_over(stage, material))
    if handed is None:
        return False
    handover = handed
    second: list[Agent] = []

    async def meet() -> WentOn:
        """Start the session that goes on; it lasts to the end of step 5."""
        second.append(await sessions.enter_async_context(agent(stage)))
        return await go_on(second[0], handover)

    async with AsyncExitStack() as sessions:
        found = await attempt(meet()) and await attempt(look_up(stage, second[0], material))
        kept = found and await attempt(promise(stage, second[0]))
    travelled = kept and await attempt(_at_once(travel, stage))
    rebuilt = travelled and await attempt(_at_once(rebuild, stage, material))
    return rebuilt is not None


async def _at_once(step: Callable[_P, _E], *args: _P.args, **kwargs: _P.kwargs) -> _E:
    """Play a step that waits for no other process."""
    return step(*args, **kwargs)


def _problem(error: Exception) -> str:
    """Return one sentence; a task group's wrapping says nothing."""
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        return "; ".join(map(_problem, group.exceptions))
    if isinstance(error, StepError | AmemError):
        return str(error)
    return f"{type(error).__name__}: {error}"
