"""Opening the memory again after a fault, as the next process does, and saying what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from amem_conformance.faults.ground import BODY, DOMAIN, Facts, Ground, Place, Record, opened, record_of
from amem_core import Draft, Memory
from amem_core.domain.labels import Label, Status
from amem_core.domain.queries import Conditions, ReadFilter
from amem_core.errors import AmemError, ConfigError, NotFoundError
from amem_core.format.entry import digest
from amem_core.session import Session

ABSENT: Final = "absent"
WHOLE: Final = "whole"
LOST: Final = "lost"
HALF: Final = "half"

_ALL: Final = ReadFilter({DOMAIN: Label.restricted})
_ANY: Final = Conditions(statuses=())
_MOST: Final = 100_000
_REVIEWS: Final = "reviews and sources"

Promise = dict[str, list[Any]]
"""What was acknowledged: version and digest by id."""

Observe = Callable[[Session, Place], str]
"""Returns ``absent`` or ``whole``: what became of the action. Raises ``Half`` for anything else."""


class Half(Exception):  # noqa: N818  (a finding, not an error)
    """Something is there in part."""


@dataclass(frozen=True)
class Action:
    """One write.

    Attributes:
        name: what it is called in a table.
        act: does it, and returns what it acknowledged.
        observe: says whether it is absent or whole.
        touches: the facts whose entries it changes.
        prepare: what has happened before it, which is no part of it.
        overwritten: whether that wrote over bytes of these entries that the log names, as only a person does.
    """

    name: str
    act: Callable[[Session, Place], Promise]
    observe: Observe
    touches: frozenset[str] = frozenset()
    prepare: Callable[[Place], None] = lambda _place: None
    overwritten: bool = False


ANYTHING: Final = Action("anything", lambda _session, _place: {}, lambda _session, _place: WHOLE)
"""Stands for what is not observed by itself: the rest of the judgement is what counts."""


def judge(
    place: Place, action: Action, promised: Promise, *, told: bool, rebuild: bool = True
) -> tuple[str, list[str]]:
    """Return the outcome and what speaks against it.

    ``promised`` is what the action acknowledged and ``told`` whether it acknowledged anything. With
    ``rebuild`` index and ledger are in the end made anew, and must be what they were.
    """
    touched = {str(place.facts[name]) for name in action.touches}
    problems: list[str] = []
    outcome = HALF
    try:
        with opened(place) as memory, memory.session(author="owner") as session:
            # What comes first is what a reader does: nobody has written since the fault.
            session.search("anything")
            session.tasks()
            try:
                outcome = action.observe(session, place)
            except Half as half:
                problems.append(str(half))
            problems += _missing(session, promised)
            if told and (outcome == ABSENT or problems):
                outcome = LOST
            record = record_of(session)
            problems += _changed(record, place.facts, touched)
            problems += disagreements(session, record, touched if action.overwritten else set())
            problems += next_steps(session)
            problems += doctored(memory)
            problems += _rebuilt(session) if rebuild else ()
    except Exception as error:  # noqa: BLE001  (whatever it is, it is what a user would have met)
        problems.append(f"the next process meets {described(error)}")
        outcome = LOST if told else HALF
    return (outcome if outcome == LOST or not problems else HALF), problems


def described(error: BaseException) -> str:
    """Return an error's kind and message, and the kind of what it was raised from."""
    cause = error.__cause__
    behind = f" (from {type(cause).__name__}: {cause})" if cause is not None else ""
    return f"{type(error).__name__}: {error}{behind}"


def _changed(record: Record, facts: Facts, touched: set[str]) -> Iterator[str]:
    """Yield what was acknowledged before the action, is none of its business, and is not there with its exact bytes."""
    for id, kept in facts["entries"].items():
        if id not in touched and list(record.get(id, ())[:2]) != kept:
            yield f"{id} was acknowledged as {kept} and is {record.get(id)}"


def _missing(session: Session, promised: Promise) -> Iterator[str]:
    """Yield what is promised and is not there with its exact bytes."""
    for id, (version, key) in promised.items():
        try:
            current = session.get(id)
            reading = current if current.entry.version == version else session.get(id, version=version)
        except AmemError as error:
            yield f"{id}, version {version}, was acknowledged: {described(error)}"
            continue
        if reading.digest != key:
            yield f"{id}, version {version}, was acknowledged as {key} and is {reading.digest}"


def index_of(session: Session) -> Record:
    """Return version, digest and status of every entry that the index has, by id."""
    hits = session.runtime.index.select(_ALL, _ANY, order="id", limit=_MOST)
    return {hit.id: (hit.version, hit.digest, str(hit.status)) for hit in hits}


def tasks_of(session: Session) -> dict[str, Any]:
    """Return every task of the domain, by id."""
    return {node.task.id: node.task for node in session.tasks(domain=DOMAIN, limit=1000)}


def disagreements(session: Session, record: Record, overwritten: set[str]) -> Iterator[str]:
    """Yield where record, index, log and ledger tell of different things."""
    index = index_of(session)
    for id in sorted({*record, *index}):
        if record.get(id) != index.get(id):
            yield f"{id} is {record.get(id)} in the record and {index.get(id)} in the index"
    logged, problems = _logged(session)
    yield from problems
    held = {(id, key): version for id, (version, key, _) in record.items()}
    for (id, key), version in held.items():
        if (id, key) not in logged:
            yield f"{id}, version {version}, is in the record and in no event of the log"
    for (id, key), version in logged.items():
        if (id, key) not in held and id not in overwritten and record.get(id, (0, "", ""))[2] != Status.erased:
            yield from _kept_behind(session, id, version, key)
    tasks_of(session)
    waiting = session.runtime.ledger.outgoing(DOMAIN)
    if waiting:
        yield f"{len(waiting)} transitions of the ledger are not in the log"


def _logged(session: Session) -> tuple[dict[tuple[str, str], int], list[str]]:
    """Return the versions that the log says were written, and what is wrong with its numbers."""
    logged: dict[tuple[str, str], int] = {}
    problems: list[str] = []
    expected = 0
    for event in session.runtime.log.read(DOMAIN):
        expected += 1
        if event.seq != expected:
            problems.append(f"event {event.seq} of the log stands where {expected} belongs")
        if event.kind.startswith("entry.") and "digest" in event.data:
            name = event.subject, event.data["digest"]
            if event.kind == "entry.abandoned":
                logged.pop(name, None)
            else:
                logged[name] = event.data["version"]
    if expected != session.runtime.log.head(DOMAIN):
        problems.append(f"the log's head is {session.runtime.log.head(DOMAIN)} and it has {expected} events")
    return logged, problems


def _kept_behind(session: Session, id: str, version: int, key: str) -> Iterator[str]:
    try:
        found = digest(session.runtime.store.read(DOMAIN, id, version))
    except NotFoundError:
        found = "not there"
    if found != key:
        yield f"{id}, version {version}, is {key} in the log and {found} in the record"


def next_steps(session: Session) -> Iterator[str]:
    """File, claim, complete and write; yield what did not succeed."""
    try:
        task = session.create_task(domain=DOMAIN, title="After the fault", summary="what comes next").task
        fence = session.claim(task.id).task.fence
        session.complete(task.id, fence=fence)
        draft = Draft(domain=DOMAIN, type="fact", title="After the fault", summary="what comes next", body=BODY)
        written = session.write(draft)
        if session.get(written.id).digest != written.digest:
            yield "the next write reads back otherwise"
        if written.id not in {hit.id for hit in session.search("After the fault", domain=DOMAIN).hits}:
            yield "the next write is not found"
    except Exception as error:  # noqa: BLE001  (it is what the next caller would have met)
        yield f"the next step meets {described(error)}"


def doctored(memory: Memory) -> Iterator[str]:
    """Yield what doctor has to say."""
    for check in memory.doctor():
        # What is due for review is a state that an entry is put into.
        if check.state != "ok" and not check.name.endswith(_REVIEWS):
            yield f"doctor: {check.name}: {check.state}: {check.detail}"


def _rebuilt(session: Session) -> Iterator[str]:
    """Rebuild index and ledger; yield where they were otherwise before, and what the record cannot give."""
    index, tasks = index_of(session), tasks_of(session)
    for answer in session.reindex(domain=DOMAIN):
        for broken in answer.broken:
            yield f"reindex: {broken.path}: {broken.reason}"
        for id in answer.edited_by_hand:
            yield f"reindex takes {id} for a hand edit"
    if index_of(session) != index:
        yield "the index is another after a rebuild"
    if tasks_of(session) != tasks:
        yield "the ledger is another after a rebuild"
    staged = session.runtime.store.staged(DOMAIN)
    if staged:
        yield f"{len(staged)} versions stay staged"


def warm(ground: Ground) -> None:
    """Judge one place that nothing befell, so that every process forked later has the modules that this takes."""
    place = ground.place()
    _, problems = judge(place, ANYTHING, {}, told=False)
    place.remove()
    if problems:
        message = f"before any fault: {'; '.join(problems)}"
        raise ConfigError(message, hint="run the conformance suite of each port on the backend first")
