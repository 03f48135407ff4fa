"""Taking in what a person made or changed by hand: a version by the owner, with the event that it lacked.

A hand on a file claims nothing by that: the text is raw until somebody verifies it, and a label is not
lowered. A file that the log knows nothing of, and that claims nothing, stays as it is, byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from amem_core.domain.events import NewEvent
from amem_core.domain.labels import Status
from amem_core.domain.results import Adopted, Broken
from amem_core.errors import InvalidError, NotFoundError
from amem_core.ports.store import Unreadable
from amem_core.services import committing, relaying, tombstones
from amem_core.services.committing import ADOPTED, Change
from amem_core.services.hands import OWNER, without_claims
from amem_core.services.surveying import Survey, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amem_core.domain.entries import Entry
    from amem_core.ports.log import LogWriter
    from amem_core.runtime import Runtime
    from amem_core.services.accounts import Told
    from amem_core.services.surveying import Subject

_GROUP = 100
_BY_HAND = frozenset({Verdict.made, Verdict.edited})


@dataclass
class Taken:
    """What became of the files that were made or changed by hand."""

    adopted: list[Adopted] = field(default_factory=list[Adopted])
    refused: list[Broken] = field(default_factory=list[Broken])


@dataclass
class _Group:
    """Versions and events that are about to be written together."""

    changes: list[Change] = field(default_factory=list[Change])
    events: list[NewEvent] = field(default_factory=list[NewEvent])
    adopted: list[Adopted] = field(default_factory=list[Adopted])


def adopt(runtime: Runtime, told: Told, writer: LogWriter) -> Taken:
    """Take in every file of the domain that was made or changed by hand; the index is the caller's to rebuild.

    The caller is the domain's only writer and has settled it. ``told`` then tells what was written as well.

    Raises:
        ConflictError: a file was changed again meanwhile. It is taken in by the next run.
    """
    taken = Taken()
    group = _Group()
    survey = Survey(runtime, told, live=False)
    # Most files are as the log names them: they need not be parsed to see that.
    for seen in Survey(runtime, told, live=False, parsing=False).subjects():
        if isinstance(seen, Unreadable) or seen.verdict not in _BY_HAND:
            continue
        subject = survey.judge(seen.account)
        if subject is not None and subject.verdict in _BY_HAND:
            _plan(survey, subject, group, taken)
        if len(group.adopted) >= _GROUP:
            _write(survey, writer, group, taken)
            group = _Group()
    _write(survey, writer, group, taken)
    for event in runtime.log.read(told.domain, after=told.head):
        told.take(event)
    return taken


def standing_in(survey: Survey, subject: Subject) -> Entry | None:
    """Return what may be served of a file that cannot be taken in, because the log may have lost its event.

    It claims nothing. None for what a hand may not state.
    """
    entry = subject.entry
    if entry is None:
        return None
    try:
        _check(survey, entry)
    except _RefusedError:
        return None
    return without_claims(entry, subject.account.label)[0]


def relabel_tasks(runtime: Runtime, domain: str, writer: LogWriter, adopted: list[Adopted]) -> None:
    """Let the ledger follow the labels of task entries that were changed by hand."""
    changed = False
    now = runtime.clock.now()
    for one in adopted:
        entry = committing.stored(runtime, domain, one.id).entry
        if entry.type == "task":
            try:
                task = runtime.ledger.get(one.id, now=now)
            except NotFoundError:
                continue
            if task.label != entry.classification:
                runtime.ledger.relabel(one.id, label=entry.classification, actor=OWNER, now=now)
                changed = True
    if changed:
        relaying.carry(runtime, domain, writer)


def _plan(survey: Survey, subject: Subject, group: _Group, taken: Taken) -> None:
    """Add one file to what is about to be written, or say why it is not taken in."""
    entry = subject.entry
    if entry is None:
        return
    try:
        _check(survey, entry)
        adopted, change = _version_of(survey, subject, entry)
    except (InvalidError, _RefusedError) as exc:
        reason = f"{exc}; {exc.hint}" if exc.hint else str(exc)
        taken.refused.append(Broken(path=f"record/{survey.domain}/{subject.id}.md", line=None, reason=reason))
        return
    if subject.verdict is Verdict.made:
        group.events += _history(survey, subject)
    if change is None:
        group.events.append(_event(survey, entry, subject.digest))
    else:
        group.changes.append(change)
    group.adopted.append(adopted)


class _RefusedError(InvalidError):
    """A file that is not taken in, whatever version it would become."""


def _check(survey: Survey, entry: Entry) -> None:
    """Refuse what a hand on a file cannot do.

    Raises:
        _RefusedError: the file says that it is erased, or states a value that may not be stated again.
    """
    if entry.status is Status.erased:
        message = "it says that it is erased, and its text is still there"
        raise _RefusedError(message, hint=f"put its status back; to erase it: amem erase {entry.id} --reason …")
    states = entry.status is Status.active and tombstones.rejection(entry) is None
    keys = list(tombstones.keys_of(entry))
    for item in tombstones.active(survey.runtime, survey.domain, keys).values():
        # An entry's own rejection is taken back in its own file, by whoever may write there.
        own = item["id"] == entry.id and bool(entry.rejected)
        if item["cause"] == "erased" or (states and not own):
            message = f"it states what was {item['cause']} as {item['id']}: {item['reason']}"
            raise _RefusedError(message, hint=f"change it, or: amem lift {item['id']} --reason …")


def _version_of(survey: Survey, subject: Subject, entry: Entry) -> tuple[Adopted, Change | None]:
    """Return what is told of a file that is taken in, and the version that it becomes; None when it stays as it is.

    Raises:
        InvalidError: that version cannot be written.
    """
    from amem_core.format.entry import render

    account = subject.account
    taken, notices = without_claims(entry, subject.account.label)
    if subject.verdict is Verdict.made and taken == entry and _stands(survey, entry):
        return Adopted(id=entry.id, version=entry.version, stated=entry.version), None
    kept = survey.runtime.store.earlier_versions(survey.domain, entry.id)
    version = max(entry.version, account.highest, *kept) + 1
    learned = survey.now if account.last is None else max(survey.now, account.last.time)
    taken = replace(taken, version=version, updated=learned)
    # What cannot be written is to be known before anything of the group is logged.
    render(taken)
    adopted = Adopted(id=entry.id, version=version, stated=entry.version, notices=notices)
    return adopted, Change(taken, ADOPTED, subject.digest)


def _stands(survey: Survey, entry: Entry) -> bool:
    """Return whether the number of a file's version is above those of its history, so that it can be the current one."""
    return entry.version > max(survey.runtime.store.earlier_versions(survey.domain, entry.id), default=0)


def _history(survey: Survey, subject: Subject) -> Iterator[NewEvent]:
    """Yield the events that the versions behind a file lack, where the log knows nothing of the entry."""
    for version in survey.earlier(subject):
        facts = {"version": version.number, "digest": version.digest, "replaces": None}
        yield NewEvent(ADOPTED, subject.id, OWNER, survey.now, facts)


def _event(survey: Survey, entry: Entry, digest: str) -> NewEvent:
    facts = {
        "version": entry.version,
        "digest": digest,
        "replaces": None,
        "type": entry.type,
        "label": str(entry.classification),
        "status": str(entry.status),
    }
    return NewEvent(ADOPTED, entry.id, OWNER, survey.now, facts)


def _write(survey: Survey, writer: LogWriter, group: _Group, taken: Taken) -> None:
    runtime, domain = survey.runtime, survey.domain
    if group.changes:
        committing.commit(runtime, domain, writer, group.changes, actor=OWNER, also=group.events, indexed=False)
    elif group.events:
        writer.append(group.events)
        runtime.settled.discard(domain)
        runtime.followed.discard(domain)
    taken.adopted += group.adopted
