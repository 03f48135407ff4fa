"""Rebuilding what is derived, index and ledger, from the record and the log alone.

``reindex`` and ``materialize`` are one thing under two names, of which the second tells more.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amem_core.domain.entries import Document
from amem_core.domain.results import Broken, Displaced, Materialized, Reindexed
from amem_core.errors import CorruptionError, FormatError, UnavailableError
from amem_core.ports.store import Unreadable
from amem_core.services import adopting, committing, relaying, tombstones
from amem_core.services.accounts import read_log
from amem_core.services.adopting import Taken
from amem_core.services.reach import held
from amem_core.services.surveying import Survey, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from amem_core.domain.results import LogBreak
    from amem_core.ports.log import LogWriter
    from amem_core.runtime import Runtime
    from amem_core.services.surveying import Subject
    from amem_core.session import Session


@dataclass
class _Walked:
    """What the walk that rebuilt an index came upon."""

    entries: int = 0
    versions: int = 0
    displaced: list[Displaced] = field(default_factory=list[Displaced])
    missing: list[str] = field(default_factory=list[str])
    broken: list[Broken] = field(default_factory=list[Broken])
    refused: list[Broken] = field(default_factory=list[Broken])


def materialize(
    session: Session, *, domain: str | None, progress: Callable[[str, int], None] | None
) -> list[Materialized]:
    """Rebuild one domain or all; see ``Session.materialize``."""
    names = [held(session, domain)] if domain is not None else sorted(session.readable.domains)
    answers: list[Materialized] = []
    for name in names:
        session.decide("reindex", {"domain": name})
        with session.runtime.log.writer(name) as writer:
            answers.append(rebuild(session.runtime, name, writer, progress))
    return answers


def reindex(session: Session, *, domain: str | None, progress: Callable[[str, int], None] | None) -> list[Reindexed]:
    """Rebuild one domain or all; see ``Session.reindex``."""
    done = materialize(session, domain=domain, progress=progress)
    for one in done:
        if one.damage is not None:
            message = f"the log of {one.domain} is damaged: {one.damage}"
            hint = "its index was built from the record, nothing was taken in, and its ledger is as it was"
            raise CorruptionError(message, hint=f"{hint}; amem log verify says where, restore the log from a copy")
    return [
        Reindexed(
            domain=one.domain,
            entries=one.entries,
            versions=one.versions,
            tasks=one.tasks,
            broken=(*one.broken, *one.refused),
            edited_by_hand=tuple(adopted.id for adopted in one.adopted),
        )
        for one in done
    ]


def rebuild(
    runtime: Runtime, domain: str, writer: LogWriter, progress: Callable[[str, int], None] | None = None
) -> Materialized:
    """Rebuild index and ledger of a domain whose only writer the caller is, and take in what was edited by hand.

    Behind damage to the log nothing is taken in, since what the log lacks may be what it lost, and
    the ledger stays as it is.

    Raises:
        UnavailableError: the record, or one file of it, cannot be read; the index stays as it was.
        ConflictError: a file was changed by hand while it was taken in.
    """
    try:
        # A log that was cut short is taken as it is: that is what whoever runs this has decided.
        if runtime.index.watermark(domain) <= writer.head:
            committing.settle(runtime, domain, writer)
    except (UnavailableError, CorruptionError):
        # A damaged index is what a rebuild mends, and a damaged log what it goes around.
        runtime.settled.discard(domain)
        runtime.followed.discard(domain)
    walked, taken, damage = _index(runtime, domain, writer, progress)
    if damage is None:
        tasks = runtime.ledger.rebuild(domain, runtime.log.read(domain), through=writer.head)
        # A ledger that was damaged began anew for every domain: each is looked at again before it is used.
        runtime.carried.clear()
        # Only now is it certain that the ledger agrees with the log, so that its outbox can follow.
        relaying.carry(runtime, domain, writer)
        adopting.relabel_tasks(runtime, domain, writer, taken.adopted)
        runtime.settled.add(domain)
    else:
        tasks = 0
    return Materialized(
        domain=domain,
        entries=walked.entries,
        versions=walked.versions,
        tasks=tasks,
        adopted=tuple(taken.adopted),
        displaced=tuple(walked.displaced),
        missing=tuple(walked.missing),
        refused=(*taken.refused, *walked.refused),
        broken=tuple(walked.broken),
        damage=None if damage is None else damage.reason,
    )


def rebuild_index(runtime: Runtime, domain: str, writer: LogWriter) -> None:
    """Rebuild the index of a domain alone, whose only writer the caller is; its log must be whole.

    Raises:
        CorruptionError: the log is damaged. Nothing was changed.
    """
    _, taken, _ = _index(runtime, domain, writer, None, whole=True)
    with suppress(UnavailableError):
        # A ledger that cannot be reached now is no reason to do without an index.
        adopting.relabel_tasks(runtime, domain, writer, taken.adopted)


def _index(
    runtime: Runtime,
    domain: str,
    writer: LogWriter,
    progress: Callable[[str, int], None] | None,
    *,
    whole: bool = False,
) -> tuple[_Walked, Taken, LogBreak | None]:
    with read_log(runtime, domain, chained=False) as told:
        if told.breach is not None and whole:
            raise CorruptionError(told.breach.reason, hint="run amem reindex: it goes around the damage, and says so")
        taken = adopting.adopt(runtime, told, writer) if told.breach is None else Taken()
        walked = _Walked()
        survey = Survey(runtime, told, live=False)
        runtime.index.rebuild(domain, _documents(survey, walked, progress), through=writer.head)
        _close_erased(runtime, domain, walked)
        # What was refused once is told once, by whoever refused it.
        known = {broken.path for broken in taken.refused}
        walked.refused = [broken for broken in walked.refused if broken.path not in known]
        return walked, taken, told.breach


def _documents(survey: Survey, walked: _Walked, progress: Callable[[str, int], None] | None) -> Iterator[Document]:
    """Yield what the index keeps of the domain, and note what stands in the way of the rest."""
    for subject in survey.subjects():
        if isinstance(subject, Unreadable):
            walked.broken.append(Broken(path=subject.path, line=None, reason=subject.reason))
            continue
        if _note(survey, subject, walked):
            if subject.entry is not None:
                tombstones.follow(survey.runtime, survey.domain, subject.entry)
            faults: list[FormatError] = []
            for document in survey.served(subject, faults):
                walked.versions += 1
                yield document
            walked.broken += [broken_file(survey.domain, subject.id, fault) for fault in faults]
            walked.entries += 1
            if progress is not None:
                progress(survey.domain, walked.entries)
        elif subject.verdict in {Verdict.made, Verdict.edited} and survey.told.breach is not None:
            entry = adopting.standing_in(survey, subject)
            if entry is not None:
                walked.entries += 1
                walked.versions += 1
                yield Document(entry, subject.digest, entry.updated)


def _note(survey: Survey, subject: Subject, walked: _Walked) -> bool:
    """Note what is to be told of an entry; return whether it is served.

    Raises:
        UnavailableError: its file is there and cannot be read: an index without it would say that it is gone.
    """
    verdict, last = subject.verdict, subject.account.last
    if verdict is Verdict.unreadable and subject.fault is not None:
        raise subject.fault
    if verdict is Verdict.broken and isinstance(subject.fault, FormatError):
        walked.broken.append(broken_file(survey.domain, subject.id, subject.fault))
    elif verdict is Verdict.missing:
        walked.missing.append(subject.id)
    elif verdict is Verdict.displaced and subject.entry is not None and last is not None:
        walked.displaced.append(Displaced(id=subject.id, logged=last.version, held=subject.entry.version))
    elif verdict in _CLOSED:
        path = f"record/{survey.domain}/{subject.id}.md"
        walked.refused.append(Broken(path=path, line=None, reason=_CLOSED[verdict]))
    if verdict is Verdict.level and subject.account.erased:
        walked.refused += _returned_history(survey, subject.id)
    return verdict in {Verdict.level, Verdict.displaced}


def _returned_history(survey: Survey, id: str) -> list[Broken]:
    """Tell of versions that were put back behind an erased entry. They are not served."""
    return [
        Broken(path=f"record/{survey.domain}/.history/{id}/{number}.md", line=None, reason=_CLOSED[Verdict.returned])
        for number in survey.runtime.store.earlier_versions(survey.domain, id)
    ]


_CLOSED = {
    Verdict.returned: "it was erased and was put back by hand: take the file out of the record, or erase it again",
    Verdict.made: "the log does not name it, and may have lost it where it is damaged: it is served raw",
    Verdict.edited: "the log does not name these bytes, and may have lost them where it is damaged: they are served raw",
    Verdict.unfinished: "its erasure was cut short: finish it with amem erase",
}


def broken_file(domain: str, id: str, fault: FormatError) -> Broken:
    """Return what is told of a file of an entry that is none; ``number`` in the context is an earlier version's."""
    number, line = fault.context.get("number"), fault.context.get("line")
    path = f"record/{domain}/{id}.md" if number is None else f"record/{domain}/.history/{id}/{number}.md"
    return Broken(path=path, line=line if isinstance(line, int) else None, reason=str(fault))


def _close_erased(runtime: Runtime, domain: str, walked: _Walked) -> None:
    """Let the tombstones follow every receipt, also those of entries that are not in this record."""
    from amem_core.services.receipts import receipt_of

    for id, _ in runtime.store.marks(domain, "erasures"):
        try:
            receipt = receipt_of(runtime, domain, id)
            if receipt is not None and receipt["finished"]:
                tombstones.close_erased(runtime, domain, receipt)
        except CorruptionError as exc:
            walked.broken.append(Broken(path=f"record/{domain}/.erasures/{id}.yaml", line=None, reason=str(exc)))
