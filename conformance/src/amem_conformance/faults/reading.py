"""Letting each step of a reading fail: it answers in full or says that it could not, and never that there is nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime
from functools import partial
from typing import Any, Final, cast

from amem_conformance.faults.children import Tell, finished
from amem_conformance.faults.crashing import Heard, spread, steps_as_json, steps_of_json
from amem_conformance.faults.failing import LASTING, ONCE, untrue
from amem_conformance.faults.ground import DOMAIN, Ground, Place, opened
from amem_conformance.faults.judging import described
from amem_conformance.faults.rows import Row
from amem_conformance.faults.steps import install, watching
from amem_conformance.faults.stopping import Counting, Failing, befalls
from amem_core import Memory
from amem_core.session import Session

MOST_AT_ONCE: Final = 400


@dataclass(frozen=True)
class Question:
    """One reading. ``ask`` returns its answer; what it answers must be the same whatever failed on the way."""

    name: str
    ask: Callable[[Session, Place], Any]
    checks: bool = False
    """Whether it looks for faults, so that one that it meets is an answer and no refusal."""
    parts: bool = False
    """Whether it may leave out what could not be read, as long as it gives something and says what it lacks."""

    def faults(self, answer: Any, right: Any) -> list[str]:
        """Return what is not true of an answer, ``right`` being the full one."""
        if answer == right or self.says(answer):
            return []
        return [f"another answer: {answer}"[:300]]

    def says(self, answer: Any) -> bool:
        """Return whether an answer that is not the full one says so."""
        if self.checks:
            return any(check["state"] != "ok" for check in _listed(answer))
        return self.parts and bool(answer["text"]) and _SAID in str(answer["notices"])


def _listed(answer: Any) -> list[Any]:
    """Return the several checks of an answer, or the one."""
    return [answer] if hasattr(answer, "items") else answer


_SAID: Final = "could not be served"


def _recalled(session: Session, place: Place) -> Any:  # noqa: ARG001  (how all are asked)
    pack = session.recall("changing whole body")
    return {"text": pack.text, "notices": pack.notices}


QUESTIONS: Final = (
    Question("search", lambda session, _place: session.search("filler", domain=DOMAIN, limit=100).hits),
    Question("get", lambda session, place: session.get(place.facts["changing"])),
    Question("get a version", lambda session, place: session.get(place.facts["changing"], version=1)),
    Question("recall", _recalled, parts=True),
    Question("t0", lambda session, _place: session.t0().text),
    Question("list tasks", lambda session, _place: session.tasks(domain=DOMAIN)),
    Question("show a task", lambda session, place: session.task(place.facts["held"])),
    Question("list receipts", lambda session, _place: session.receipts()),
    Question("list domains", lambda session, _place: session.runtime.policy.domains()),
    Question("doctor", lambda session, _place: Memory(session.runtime).doctor(), checks=True),
    Question("fsck", lambda session, _place: session.fsck(), checks=True),
    Question("verify the log", lambda session, _place: session.verify_log(), checks=True),
)


def answered(ground: Ground, question: Question, kind: str, *, most: int | None = None, heard: Heard) -> Row:
    """Let the steps of a reading fail with ``kind``, once and for good, and return what was answered."""
    install()
    row = Row("reading", question.name, kind)
    place = ground.place()
    child = finished(partial(_plainly, place, question))
    if child.failure is not None:
        message = f"{question.name} does not succeed where nothing fails: {child.failure}"
        raise AssertionError(message)
    right = child.told[-1]["answer"]
    steps = [step for step in steps_of_json(child.told[-1]["steps"]) if befalls(kind, step)]
    points = spread([(number, lasting) for number in range(1, len(steps) + 1) for lasting in (False, True)], most)
    for first in range(0, len(points), MOST_AT_ONCE):
        heard(first, len(points))
        some = points[first : first + MOST_AT_ONCE]
        child = finished(partial(_ask_all, place, question, kind, some))
        for told in child.told:
            if "at" in told:
                _take(row, question, right, told)
        if child.failure is not None:
            row.wrong += 1
            row.note(question.name, [child.failure])
    heard(len(points), len(points))
    place.remove()
    return row


def _take(row: Row, question: Question, right: Any, told: dict[str, Any]) -> None:
    row.tried += 1
    problems: list[str] = []
    if "refused" in told:
        row.refused += not told["untrue"]
        problems += [f"the caller gets {told['refused']}"] if told["untrue"] else []
    else:
        problems += question.faults(told["answer"], right)
        row.whole += told["answer"] == right
        row.refused += told["answer"] != right and not problems
    row.wrong += bool(problems)
    if told["after"] != right:
        row.half += 1
        problems.append(f"mended, it is answered otherwise: {told['after']}"[:300])
    row.note(told["at"], problems)


def _plainly(place: Place, question: Question, tell: Tell) -> None:
    with opened(place) as memory, memory.session(author="owner") as session:
        question.ask(session, place)  # What a root does once, such as remembering the policy's answers.
    counting = Counting()
    with watching(counting, place.directory), opened(place) as memory, memory.session(author="owner") as session:
        answer = as_json(question.ask(session, place))
    tell({"answer": answer, "steps": steps_as_json(counting)})


def _ask_all(place: Place, question: Question, kind: str, points: list[tuple[int, bool]], tell: Tell) -> None:
    """Ask once for each point; a reading changes nothing, so that they share a place and a process."""
    for number, lasting in points:
        failing = Failing(number, kind, lasting=lasting)
        told: dict[str, Any] = {}
        memory: Memory | None = None
        session: Session | None = None
        with watching(failing, place.directory):
            try:
                memory = opened(place)
                session = memory.session(author="owner")
                told["answer"] = as_json(question.ask(session, place))
            except Exception as error:  # noqa: BLE001  (which kind it is, is the question)
                told.update(refused=described(error), untrue=untrue(error))
        told["at"] = f"{LASTING if lasting else ONCE} at {failing.reached or 'no step of this run'}"
        told["after"] = _again(memory, session, place, question)
        tell(told)


def _again(memory: Memory | None, session: Session | None, place: Place, question: Question) -> Any:
    """Ask the same memory again, now that all is mended."""
    try:
        memory = memory or opened(place)
        with memory:
            return as_json(question.ask(session or memory.session(author="owner"), place))
    except Exception as error:  # noqa: BLE001  (it is what the caller would have met)
        return described(error)


def as_json(answer: Any) -> Any:
    """Return an answer as JSON has it, without scores, which say nothing of what is there."""
    if is_dataclass(answer):
        return {each.name: as_json(getattr(answer, each.name)) for each in fields(answer)}
    named = getattr(answer, "_asdict", None)
    if named is not None:
        return {name: as_json(value) for name, value in named().items() if name != "score"}
    if isinstance(answer, list | tuple):
        return [as_json(item) for item in cast("list[Any]", answer)]
    if hasattr(answer, "items"):
        return {str(key): as_json(value) for key, value in answer.items()}
    if isinstance(answer, datetime | date):
        return answer.isoformat()
    return answer if isinstance(answer, str | int | float | bool | None) else str(answer)
