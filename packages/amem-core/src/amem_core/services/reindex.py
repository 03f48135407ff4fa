"""Rebuilding what is derived, index and ledger, from the record and the log alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amem_core.domain.entries import Document
from amem_core.domain.events import NewEvent
from amem_core.domain.labels import Label, Status
from amem_core.domain.results import Broken, Reindexed
from amem_core.errors import FormatError, UnavailableError
from amem_core.ports.store import Unreadable
from amem_core.services import committing, relaying, tombstones
from amem_core.services.reach import held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from amem_core.domain.entries import Entry
    from amem_core.ports.log import LogWriter
    from amem_core.runtime import Runtime
    from amem_core.session import Session

ADOPTED = "entry.adopted"


@dataclass
class _Found:
    """What a walk over one domain's record came upon."""

    entries: int = 0
    versions: int = 0
    broken: list[Broken] = field(default_factory=list)
    adopted: list[NewEvent] = field(default_factory=list)


def reindex(session: Session, *, domain: str | None, progress: Callable[[str, int], None] | None) -> list[Reindexed]:
    """Rebuild one domain or all; see ``Session.reindex``."""
    names = [held(session, domain)] if domain is not None else sorted(session.readable.domains)
    answers = []
    for name in names:
        session.decide("reindex", {"domain": name})
        with session.runtime.log.writer(name) as writer:
            answers.append(_rebuild(session.runtime, name, writer, progress))
    return answers


def rebuild_index(
    runtime: Runtime, domain: str, writer: LogWriter, progress: Callable[[str, int], None] | None = None
) -> tuple[int, int, list[Broken], list[str]]:
    """Rebuild the index of a domain whose only writer the caller is.

    Files that a person made or changed by hand are taken as they are, with an ``entry.adopted``
    event for each. Returns entries, versions, what is broken, and the ids that were adopted.
    """
    found = _Found()
    runtime.index.rebuild(domain, _walk(runtime, domain, found, progress), through=writer.head)
    if found.adopted:
        writer.append(found.adopted)
        runtime.index.apply(domain, [], through=writer.head)
    return found.entries, found.versions, found.broken, [event.subject for event in found.adopted]


def _rebuild(
    runtime: Runtime, domain: str, writer: LogWriter, progress: Callable[[str, int], None] | None
) -> Reindexed:
    try:
        # A log that was cut short is taken as it is: that is what whoever runs this has decided.
        if runtime.index.watermark(domain) <= writer.head:
            committing.settle(runtime, domain, writer)
    except UnavailableError:
        # A damaged index is what a rebuild mends.
        runtime.settled.discard(domain)
        runtime.followed.discard(domain)
    entries, versions, broken, adopted = rebuild_index(runtime, domain, writer, progress)
    tasks = runtime.ledger.rebuild(domain, runtime.log.read(domain), through=writer.head)
    # A ledger that was damaged began anew for every domain: each is looked at again before it is used.
    runtime.carried.clear()
    # Only now is it certain that the ledger agrees with the log, so that its outbox can follow.
    relaying.carry(runtime, domain, writer)
    runtime.settled.add(domain)
    return Reindexed(
        domain=domain,
        entries=entries,
        versions=versions,
        tasks=tasks,
        broken=tuple(broken),
        edited_by_hand=tuple(adopted),
    )


def _walk(
    runtime: Runtime, domain: str, found: _Found, progress: Callable[[str, int], None] | None
) -> Iterator[Document]:
    """Yield every version of every entry whose current version can be read, oldest first within an id."""
    reader = _Reader(runtime, domain, _logged(runtime, domain), runtime.clock.now(), _default_label(runtime, domain))
    for stored in runtime.store.entries(domain):
        if isinstance(stored, Unreadable):
            found.broken.append(Broken(path=stored.path, line=None, reason=stored.reason))
            continue
        earlier = runtime.store.earlier_versions(domain, stored.id)
        try:
            current = reader.read(stored.id, None)
        except FormatError as exc:
            found.broken.append(_broken(domain, stored.id, None, exc))
            continue
        refused = _refused(runtime, domain, current, earlier)
        if refused is not None:
            found.broken.append(refused)
            continue
        for number in earlier:
            try:
                yield reader.read(stored.id, number)
            except FormatError as exc:
                found.broken.append(_broken(domain, stored.id, number, exc))
            else:
                found.versions += 1
        found.entries += 1
        found.versions += 1
        tombstones.follow(runtime, domain, current.entry)
        if current.digest not in reader.known:
            found.adopted.append(_adoption(current, reader.now))
        yield current
        if progress is not None:
            progress(domain, found.entries)


@dataclass(frozen=True)
class _Reader:
    """Reads versions as documents, with the times that the log gives them."""

    runtime: Runtime
    domain: str
    known: dict[str, datetime]
    now: datetime
    fallback: Label

    def read(self, id: str, number: int | None) -> Document:
        from amem_core.format.entry import digest, parse

        data = self.runtime.store.read(self.domain, id, number)
        key = digest(data)
        time = self.known.get(key, self.now)
        entry = parse(data, domain=self.domain, id=id, fallback_time=time, fallback_label=self.fallback)
        return Document(entry, key, time)


def _logged(runtime: Runtime, domain: str) -> dict[str, datetime]:
    """Return when each digest that the log names was first written."""
    known: dict[str, datetime] = {}
    for event in runtime.log.read(domain):
        if event.kind.startswith("entry.") and event.kind != committing.ABANDONED:
            known.setdefault(event.data["digest"], event.time)
    return known


def _adoption(document: Document, now: datetime) -> NewEvent:
    facts = {"version": document.entry.version, "digest": document.digest}
    return NewEvent(ADOPTED, document.entry.id, "owner", now, facts)


def _refused(runtime: Runtime, domain: str, current: Document, earlier: list[int]) -> Broken | None:
    """Return why a current version is not taken in, None when it is."""
    if earlier and current.entry.version <= earlier[-1]:
        return _set_back(domain, current.entry, earlier[-1])
    return _restored(runtime, domain, current)


def _restored(runtime: Runtime, domain: str, document: Document) -> Broken | None:
    """Tell of a file that brings back what was erased: it is not taken in and not served."""
    from amem_core.services.receipts import receipt_of

    entry = document.entry
    receipt = None if entry.status is Status.erased else receipt_of(runtime, domain, entry.id)
    if receipt is None or not receipt["finished"] or receipt.get("origin"):
        return None
    reason = f"it was erased at {receipt['time']} and was put back by hand: take the file out of the record"
    return Broken(path=f"record/{domain}/{entry.id}.md", line=None, reason=reason)


def _set_back(domain: str, entry: Entry, highest: int) -> Broken:
    reason = f"it says version {entry.version}, but version {highest} is in its history: write version: {highest + 1}"
    return Broken(path=f"record/{domain}/{entry.id}.md", line=None, reason=reason)


def _broken(domain: str, id: str, number: int | None, exc: FormatError) -> Broken:
    path = f"record/{domain}/{id}.md" if number is None else f"record/{domain}/.history/{id}/{number}.md"
    line = exc.context.get("line")
    return Broken(path=path, line=line if isinstance(line, int) else None, reason=str(exc))


def _default_label(runtime: Runtime, domain: str) -> Label:
    """Return the label that the policy gives to what the owner writes with no label, for files that name none."""
    facts = {
        "author": "owner",
        "kind": "owner",
        "destination": None,
        "domains": None,
        "label": "public",
        "ceiling": "restricted",
    }
    resource = {"domain": domain, "type": "reference", "label": None, "replaces": None}
    decision = runtime.decide("write", facts, resource)
    return Label.parse(decision.obligations.get("label", "restricted"))
