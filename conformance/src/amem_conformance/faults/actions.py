"""What is stopped: every kind of write, what it acknowledges, and how one sees what became of it."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import Any, Final

from amem_conformance.faults.ground import BODY, DOMAIN, UNIQUE, WORD, Place, owner, record_of
from amem_conformance.faults.judging import ABSENT, WHOLE, Action, Half, Observe, Promise
from amem_core import Draft, Memory
from amem_core.domain.labels import Status
from amem_core.domain.tasks import TaskStatus
from amem_core.errors import AmemError, NotFoundError
from amem_core.session import Session

_TEXT: Final = f"{WORD} and all the rest of it.\n\n{BODY}"
EXPORT: Final = "export a bundle"
_REASON: Final = f"a second look, {WORD}"


def _draft(title: str, **fields: Any) -> Draft:
    return Draft(domain=DOMAIN, type="fact", title=title, summary=f"{WORD}: {title}", body=_TEXT, **fields)


def _found(session: Session) -> list[str]:
    """Return the ids of the entries that say what an action wrote, each read whole."""
    ids: list[str] = []
    for hit in session.search(WORD, limit=100).hits:
        reading = session.get(hit.id)
        if (reading.entry.version, reading.digest) != (hit.version, hit.digest):
            message = f"{hit.id} is found as {hit.version} and read as {reading.entry.version}"
            raise Half(message)
        if BODY not in reading.entry.body:
            message = f"{hit.id} is there with a part of its body"
            raise Half(message)
        ids.append(hit.id)
    return ids


def _all_or_none(number: int) -> Observe:
    def observe(session: Session, place: Place) -> str:  # noqa: ARG001  (the others need it)
        found = _found(session)
        if len(found) not in {0, number}:
            message = f"{len(found)} of {number} entries are there"
            raise Half(message)
        return WHOLE if found else ABSENT

    return observe


def _write(session: Session, place: Place) -> Promise:  # noqa: ARG001
    written = session.write(_draft("New"))
    return {written.id: [1, written.digest]}


def _change(session: Session, place: Place) -> Promise:
    written = session.write(_draft("Changed", id=place.facts["changing"]))
    return {written.id: [written.version, written.digest]}


def _changed(session: Session, place: Place) -> str:
    found = _found(session)
    if found not in ([], [place.facts["changing"]]):
        message = f"{found} say what was written"
        raise Half(message)
    version = session.get(place.facts["changing"]).entry.version
    if version != (3 if found else 2):
        message = f"version {version} is current"
        raise Half(message)
    for number in (1, 2):
        session.get(place.facts["changing"], version=number)
    return WHOLE if found else ABSENT


def _supersede(session: Session, place: Place) -> Promise:
    written = session.write(_draft("Newer", supersedes=(place.facts["old"],)))
    return {written.id: [1, written.digest]}


def _superseded(session: Session, place: Place) -> str:
    found = _found(session)
    old = session.get(place.facts["old"]).entry
    if (old.status, old.superseded_by) != ((Status.superseded, found[0]) if found else (Status.active, None)):
        message = f"the new entry is {'there' if found else 'not there'} and the old one is {old.status}"
        raise Half(message)
    return WHOLE if found else ABSENT


def _group(session: Session, place: Place) -> Promise:  # noqa: ARG001
    written = session.write_many([_draft(f"One of several, {number}") for number in range(3)])
    return {answer.id: [1, answer.digest] for answer in written}


def _file(session: Session, place: Place) -> Promise:  # noqa: ARG001
    task = session.create_task(domain=DOMAIN, title="Filed", summary=WORD, body=_TEXT).task
    return {task.id: [1, session.get(task.id).digest]}


def _filed(session: Session, place: Place) -> str:
    before = {place.facts[name] for name in ("free", "held", "done")}
    tasks = {node.task.id for node in session.tasks(domain=DOMAIN)} - before
    found = set(_found(session))
    if tasks != found or len(found) > 1:
        message = f"the ledger has {sorted(tasks)}, the record {sorted(found)}"
        raise Half(message)
    return WHOLE if found else ABSENT


def _claim(session: Session, place: Place) -> Promise:
    session.claim(place.facts["free"], lease=3600)
    return {}


def _claimed(session: Session, place: Place) -> str:
    task = session.task(place.facts["free"]).task
    if task.status is TaskStatus.claimed and task.fence != 1:
        message = f"the task is {task.status} with fence {task.fence}"
        raise Half(message)
    # Its lease may have run out meanwhile: the fence says that it was claimed.
    return WHOLE if task.fence else ABSENT


def _complete(session: Session, place: Place) -> Promise:
    done = session.complete(place.facts["held"], fence=place.facts["fence"], result=_TEXT)
    return {str(done.handoff): [1, session.get(str(done.handoff)).digest]}


def _completed(session: Session, place: Place) -> str:
    found = _found(session)
    task = session.task(place.facts["held"]).task
    if task.status is TaskStatus.completed:
        if found != [task.handoff]:
            message = f"the task's result is {task.handoff} and {found} are there"
            raise Half(message)
        return WHOLE
    if task.status is not TaskStatus.claimed or task.fence != place.facts["fence"]:
        message = f"the task is {task.status} with fence {task.fence}"
        raise Half(message)
    # A result is written before the step that names it: it may stand by itself, never the other way round.
    return ABSENT


def _erase(session: Session, place: Place) -> Promise:
    session.erase(place.facts["secret"], reason="requested")
    return {}


def _erased(session: Session, place: Place) -> str:
    """Whole when nothing of it is served; an erasure that stopped short is finished by the next one, then no byte is left."""
    id, before = place.facts["secret"], place.facts["entries"][place.facts["secret"]]
    try:
        reading = session.get(id)
    except AmemError:
        reading = None
    absent = reading is not None and [reading.entry.version, reading.digest] == before
    served = session.search(UNIQUE).hits
    if reading is not None and not absent and UNIQUE in reading.entry.body:
        message = "a part of it is served"
        raise Half(message)
    if served and not absent:
        message = "it is found and not to be read"
        raise Half(message)
    with suppress(NotFoundError):
        session.erase(id, reason="requested")
    for path in _files(place.root):
        with open(path, "rb") as file:
            if UNIQUE.encode() in file.read():
                message = f"{os.path.relpath(path, place.root)} still holds it"
                raise Half(message)
    return ABSENT if absent else WHOLE


def _files(root: str) -> list[str]:
    return [os.path.join(directory, name) for directory, _, names in os.walk(root) for name in names]


def _import(session: Session, place: Place) -> Promise:
    done = session.import_bundle(place.bundle, domain=DOMAIN)
    return {id: [reading.entry.version, reading.digest] for id in done.ids for reading in [session.get(id)]}


def _export(session: Session, place: Place) -> Promise:
    session.export(DOMAIN, place.out)
    return {}


def _exported(session: Session, place: Place) -> str:
    """Whole when a bundle is there that another memory takes in; a directory without a manifest is none."""
    del session
    if not os.path.exists(os.path.join(place.out, "manifest.yaml")):
        return ABSENT
    target = os.path.join(place.directory, "target")
    Memory.init(target, domain=DOMAIN)
    with Memory.open(target) as memory, memory.session(author="owner") as other:
        taken = set(other.import_bundle(place.out).ids)
    expected = set(place.facts["entries"]) - {place.facts["gone"]}
    if taken != expected:
        message = f"the bundle has {len(taken)} of {len(expected)} entries"
        raise Half(message)
    return WHOLE


def _reindex(session: Session, place: Place) -> Promise:  # noqa: ARG001
    session.reindex(domain=DOMAIN)
    return {}


def _reindexed(session: Session, place: Place) -> str:
    found = sorted(hit.id for hit in session.search("filler", domain=DOMAIN, limit=100).hits)
    if found != place.facts["found"]:
        message = f"a search finds {len(found)} of {len(place.facts['found'])}"
        raise Half(message)
    return WHOLE


def _reject(session: Session, place: Place) -> Promise:
    done = session.reject(place.facts["doubtful"], reason=_REASON)
    return {done.id: [done.version, done.digest]}


def _rejected(session: Session, place: Place) -> str:
    entry = session.get(place.facts["doubtful"]).entry
    derived = session.get(place.facts["derived"]).entry
    rejected = entry.status is Status.demoted
    if rejected != (derived.review_by is not None):
        message = f"the entry is {entry.status}, what is derived from it is due on {derived.review_by}"
        raise Half(message)
    return _stated_again(session, place.facts["doubtful"], refused=rejected)


def _stated_again(session: Session, id: str, *, refused: bool) -> str:
    """Check that what an entry states may not be stated again, or may."""
    entry = session.get(id).entry
    draft = Draft(domain=DOMAIN, type="decision", title=entry.title, summary=entry.summary, body=entry.body)
    try:
        session.write(draft)
    except AmemError as error:
        if refused:
            return WHOLE
        message = f"it cannot be stated again: {error}"
        raise Half(message) from error
    if refused:
        message = "it is rejected and can be stated again"
        raise Half(message)
    return ABSENT


def _lift(session: Session, place: Place) -> Promise:
    done = session.lift(place.facts["rejected"], reason=_REASON)
    return {done.id: [done.version, done.digest]}


def _lifted(session: Session, place: Place) -> str:
    refused = session.get(place.facts["rejected"]).entry.status is Status.demoted
    _stated_again(session, place.facts["rejected"], refused=refused)
    return ABSENT if refused else WHOLE


def _verify(session: Session, place: Place) -> Promise:
    done = session.verify(place.facts["sound"], oracle="ci", evidence=_REASON, by="ada")
    return {done.id: [done.version, done.digest]}


def _verified(session: Session, place: Place) -> str:
    entry = session.get(place.facts["sound"]).entry
    if (str(entry.trust_tier) == "verified") != bool(entry.verified):
        message = f"it is {entry.trust_tier} with {len(entry.verified)} verifications"
        raise Half(message)
    return WHOLE if entry.verified else ABSENT


def _edit(place: Place) -> None:
    """Change a file of the record as a person does; where there are no files, nothing is there to change."""
    path = _edited(place)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("changing, in one sentence", f"{WORD}, by hand"))


def _edited(place: Place) -> str:
    return os.path.join(place.root, "record", DOMAIN, f"{place.facts['changing']}.md")


def _taken_in(session: Session, place: Place) -> str:
    """Whole when the next reindex has taken the edit in as one version, whoever began it."""
    session.reindex(domain=DOMAIN)
    entry = session.get(place.facts["changing"]).entry
    expected = (3, f"{WORD}, by hand", "owner") if os.path.exists(_edited(place)) else (2, entry.summary, entry.author)
    if (entry.version, entry.summary, entry.author) != expected:
        message = f"the edit is version {entry.version} by {entry.author}: {entry.summary}"
        raise Half(message)
    return WHOLE


def _ingest(session: Session, place: Place) -> Promise:
    session.ingest([_folder(place)], domain=DOMAIN)
    return {}


def _folder(place: Place) -> str:
    return os.path.join(place.directory, "folder")


def _write_folder(place: Place, *, changed: bool = False) -> None:
    os.makedirs(os.path.join(_folder(place), "below"), exist_ok=True)
    for name, number in (("one.md", 1), ("below/two.md", 2)):
        text = f"# Section {number}\n\n{_TEXT}\n\n# Section {number} again\n\n{_TEXT}\n"
        with open(os.path.join(_folder(place), name), "w", encoding="utf-8") as file:
            file.write(text + (f"# Section {number} once more\n\n{_TEXT}\n" if changed and number == 1 else ""))


def _ingested(session: Session, place: Place, sections: int = 4) -> str:
    """Whole when ingesting again, as one does after it was cut short, leaves each section there once and none archived."""
    done = session.ingest([_folder(place)], domain=DOMAIN)
    found = _found(session)
    archived = [id for id, (_, _, status) in record_of(session).items() if status == Status.archived]
    if len(found) != sections or done.broken or archived:
        message = f"{len(found)} of {sections} sections are there, {len(archived)} archived, {len(done.broken)} broken"
        raise Half(message)
    return WHOLE


def _ingest_once(place: Place) -> None:
    _write_folder(place)
    with owner(place) as session:
        _ingest(session, place)
    _write_folder(place, changed=True)


ACTIONS: Final = (
    Action("write an entry", _write, _all_or_none(1)),
    Action("write a new version", _change, _changed, frozenset({"changing"})),
    Action("write what supersedes", _supersede, _superseded, frozenset({"old"})),
    Action("write a group of three", _group, _all_or_none(3)),
    Action("file a task", _file, _filed),
    Action("claim a task", _claim, _claimed),
    Action("complete a task with a result", _complete, _completed),
    Action("reject", _reject, _rejected, frozenset({"doubtful", "derived"})),
    Action("lift a rejection", _lift, _lifted, frozenset({"rejected"})),
    Action("verify", _verify, _verified, frozenset({"sound"})),
    Action("erase", _erase, _erased, frozenset({"secret"})),
    Action("import a bundle", _import, _all_or_none(3)),
    Action(EXPORT, _export, _exported),
    Action("reindex", _reindex, _reindexed),
    Action("take in a hand edit", _reindex, _taken_in, frozenset({"changing"}), _edit, overwritten=True),
    Action("ingest a folder", _ingest, _ingested, prepare=_write_folder),
    Action("ingest a folder again", _ingest, partial(_ingested, sections=5), prepare=_ingest_once),
)
