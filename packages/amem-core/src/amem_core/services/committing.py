"""The order of a write: log, record, index, and what completes one that a crash cut short.

Bytes are staged first (durable, invisible), then the event is appended, then the bytes are
published and indexed. The log decides: what it names and staging still holds is published by the
next look at the domain; what it names and nobody holds any more was never acknowledged and is
closed by an ``entry.abandoned`` event; what staging holds and the log does not name is discarded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from amem_core.domain.entries import Document, Entry
from amem_core.domain.events import Event, NewEvent
from amem_core.domain.labels import Label, Status
from amem_core.errors import AmemError, ConflictError, FormatError, InternalError, NotFoundError, UnavailableError
from amem_core.ports.store import NewVersion
from amem_core.services.looking import log_too_short

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from amem_core.ports.log import LogWriter
    from amem_core.runtime import Runtime
    from amem_core.session import Session

WRITTEN = "entry.written"
IMPORTED = "entry.imported"
ABANDONED = "entry.abandoned"
ADOPTED = "entry.adopted"
ERASED = "entry.erased"
LIFTED = "entry.lifted"


@dataclass(frozen=True, slots=True)
class Change:
    """One version about to be written. ``replaces`` is the digest of the bytes that it was made from.

    ``checked`` says that the entry has passed ``check_entry``, so that rendering it need not repeat that.
    """

    entry: Entry
    kind: str
    replaces: str | None
    checked: bool = False


@dataclass(frozen=True, slots=True)
class Current:
    """The current version of an entry as the record holds it. ``by_hand`` says that it has not been taken in yet."""

    entry: Entry
    digest: str
    by_hand: bool = False


def load(runtime: Runtime, domain: str, id: str, *, at: datetime | None = None, label: Label | None = None) -> Current:
    """Return the current version from the record, with nothing that only a hand on its file claims.

    ``at`` and ``label`` stand in for what a file made by hand does not say.

    Raises:
        NotFoundError: there is no such entry.
        FormatError: its file cannot be parsed.
    """
    from amem_core.services.hands import as_known

    return as_known(runtime, domain, stored(runtime, domain, id, at=at, label=label))


def stored(
    runtime: Runtime, domain: str, id: str, *, at: datetime | None = None, label: Label | None = None
) -> Current:
    """Return the current version as its file has it, whatever that claims.

    Raises:
        NotFoundError: there is no such entry.
        FormatError: its file cannot be parsed.
    """
    from amem_core.format.entry import digest, parse

    data = runtime.store.read(domain, id)
    entry = parse(
        data,
        domain=domain,
        id=id,
        fallback_time=at or runtime.clock.now(),
        fallback_label=Label.restricted if label is None else label,
    )
    return Current(entry, digest(data))


def commit(
    runtime: Runtime,
    domain: str,
    writer: LogWriter,
    changes: Sequence[Change],
    *,
    actor: str,
    also: Sequence[NewEvent] = (),
    indexed: bool = True,
    teller: Session | None = None,
) -> tuple[list[str], list[str]]:
    """Write the versions together; return their digests and what the caller should be told.

    ``also`` are events that belong to the same step, such as a task's filing; they are appended
    with the versions' own, all or none. The caller holds ``writer`` and has settled the domain.
    ``indexed`` is False for a caller that rebuilds the index next: an index that is not whole must
    not say that it has followed the log. ``teller`` is the session that hears why a value is refused.

    Raises:
        ConflictError: a version states what was rejected or erased, or the record changed behind
            amem's back since the change was made.
        UnavailableError: a backend cannot serve. What the log took is completed by the next look.
    """
    from amem_core.format.entry import digest, render
    from amem_core.services.tombstones import refuse_rejected

    # An import has asked for all that it brings before it wrote the first of it.
    refuse_rejected(runtime, domain, [change.entry for change in changes if change.kind == WRITTEN], teller=teller)
    _check_numbers(runtime, domain, changes)
    now = runtime.clock.now()
    versions: list[NewVersion] = []
    events: list[NewEvent] = []
    for change in changes:
        data = render(change.entry, checked=change.checked)
        version = NewVersion(change.entry.id, change.entry.version, data, digest(data), change.replaces)
        versions.append(version)
        # When this memory learned it: an import brings an older time of its own, and a clock may have jumped back.
        events.append(_event(change, version, actor, max(now, change.entry.updated)))
    try:
        runtime.store.stage(domain, versions)
        writer.append([*events, *also])
    except AmemError:
        for version in versions:
            runtime.store.discard(domain, version.id, version.version)
        raise
    # From here on the write is in the log: a failure leaves it for the next look at the domain.
    runtime.settled.discard(domain)
    runtime.followed.discard(domain)
    runtime.store.publish(domain, versions)
    documents = [
        Document(change.entry, version.digest, event.time)
        for change, version, event in zip(changes, versions, events, strict=True)
    ]
    _project(runtime, domain, documents)
    notices: list[str] = []
    if not indexed:
        return [version.digest for version in versions], notices
    try:
        runtime.index.apply(domain, documents, through=writer.head)
        runtime.settled.add(domain)
    except UnavailableError as exc:
        notices.append(f"written, but not in the index yet: {exc}; do not write it again, run amem reindex")
    return [version.digest for version in versions], notices


def _check_numbers(runtime: Runtime, domain: str, changes: Sequence[Change]) -> None:
    """Refuse, before anything is logged, a version that stands in the history of an entry whose file was set back.

    Raises:
        ConflictError: the message says which.
    """
    for change in changes:
        entry = change.entry
        kept = runtime.store.earlier_versions(domain, entry.id) if change.replaces is not None else []
        if kept and kept[-1] >= entry.version:
            message = f"the file of {entry.id} was set back by hand behind version {kept[-1]}, which is in its history"
            hint = f"to keep its text, write 'version: {kept[-1] + 1}' into the file and run amem reindex"
            raise ConflictError(message, hint=f"{hint}; else restore it from a newer copy")


def _project(runtime: Runtime, domain: str, documents: Sequence[Document]) -> None:
    """Make the tombstones follow what is rejected or erased, before the index says that all has been followed."""
    from amem_core.services.tombstones import follow

    for document in documents:
        follow(runtime, domain, document.entry)


def _event(change: Change, version: NewVersion, actor: str, time: datetime) -> NewEvent:
    entry = change.entry
    return NewEvent(
        change.kind,
        entry.id,
        actor,
        time,
        {
            "version": entry.version,
            "digest": version.digest,
            "replaces": version.replaces,
            "type": entry.type,
            "label": str(entry.classification),
            "status": str(entry.status),
        },
    )


def settle(runtime: Runtime, domain: str, writer: LogWriter) -> None:
    """Complete or close every write of the domain that was cut short; the caller is its only writer."""
    mark = runtime.index.watermark(domain)
    if mark == writer.head and domain in runtime.settled:
        return
    if mark > writer.head:
        raise log_too_short(domain, "index", mark, writer.head)
    staged = {(item.id, item.version, item.digest) for item in runtime.store.staged(domain)}
    if mark == writer.head and not staged:
        runtime.settled.add(domain)
        return
    if mark == 0 and writer.head > 0:
        _rebuild(runtime, domain, writer, staged)
        return
    events = [event for event in runtime.log.read(domain, after=mark) if event.kind.startswith("entry.")]
    abandoned = {
        (event.subject, event.data["version"], event.data["digest"]) for event in events if event.kind == ABANDONED
    }
    documents: list[Document] = []
    for event in events:
        name = (event.subject, event.data.get("version"), event.data.get("digest"))
        if event.kind == ABANDONED or name in abandoned or name[1] is None:
            continue
        stubs = _of_an_erasure(runtime, domain, event)
        if stubs is not None:
            documents += stubs
            continue
        if (name in staged and not _publish(runtime, domain, event)) or not _held(runtime, domain, event, documents):
            _abandon(runtime, domain, writer, event)
    for id, version, _ in staged:
        runtime.store.discard(domain, id, version)
    _project(runtime, domain, documents)
    runtime.index.apply(domain, documents, through=writer.head)
    runtime.settled.add(domain)


def _of_an_erasure(runtime: Runtime, domain: str, event: Event) -> list[Document] | None:
    """Complete what an erasure, or the lifting of what it closed, has left; return what the index takes in for it.

    None for an event of anything else. A lifting writes no version: the stub is as old as its erasure.
    """
    if event.kind == ERASED:
        return _erased(runtime, domain, event)
    stub: list[Document] = []
    if event.kind != LIFTED or not _held(runtime, domain, event, stub):
        return None
    if not any(one.entry.status is Status.erased for one in stub):
        return None
    _project(runtime, domain, stub)
    return []


def _erased(runtime: Runtime, domain: str, event: Event) -> list[Document]:
    """Let the index forget what was erased, and return the stub; nothing where the record has not come to it.

    An erasure that was cut short is never given up: its receipt says so, and the next run finishes it.
    Until then nothing of it is served, at whatever time it is asked for.
    """
    stub: list[Document] = []
    _held(runtime, domain, event, stub)
    for document in stub:
        runtime.index.forget(domain, event.subject, document)
    return stub


def _rebuild(runtime: Runtime, domain: str, writer: LogWriter, staged: set[tuple[str, int, str]]) -> None:
    """Complete what is staged, then build an index that is not there (or was deleted) from the record."""
    from amem_core.services.reindex import rebuild_index

    if staged:
        for event in runtime.log.read(domain):
            name = (event.subject, event.data.get("version"), event.data.get("digest"))
            if name in staged and event.kind != ABANDONED and not _publish(runtime, domain, event):
                _abandon(runtime, domain, writer, event)
    for id, version, _ in staged:
        runtime.store.discard(domain, id, version)
    rebuild_index(runtime, domain, writer)
    runtime.settled.add(domain)


def _publish(runtime: Runtime, domain: str, event: Event) -> bool:
    """Publish what the event names from staging; False when the record has moved on behind amem's back."""
    version, digest = event.data["version"], event.data["digest"]
    try:
        data = runtime.store.read_staged(domain, event.subject, version)
        runtime.store.publish(domain, [NewVersion(event.subject, version, data, digest, event.data["replaces"])])
    except (ConflictError, NotFoundError):
        return False
    return True


def _held(runtime: Runtime, domain: str, event: Event, documents: list[Document]) -> bool:
    """Whether the record holds the version that the event names; its document is added when it can be read."""
    from amem_core.format.entry import digest, parse

    version = event.data["version"]
    for number in (None, version):
        try:
            data = runtime.store.read(domain, event.subject, number)
        except NotFoundError:
            continue
        if digest(data) != event.data["digest"]:
            continue
        try:
            entry = parse(
                data, domain=domain, id=event.subject, fallback_time=event.time, fallback_label=Label.restricted
            )
        except FormatError:
            return True
        documents.append(Document(entry, event.data["digest"], event.time))
        return True
    # A current version that a later event or a person's hand replaced is held under its number only.
    return version in runtime.store.earlier_versions(domain, event.subject) or _current_is_newer(runtime, domain, event)


def _current_is_newer(runtime: Runtime, domain: str, event: Event) -> bool:
    try:
        current = stored(runtime, domain, event.subject, at=event.time)
    except NotFoundError:
        return False
    except FormatError:
        return True
    return bool(current.entry.version >= event.data["version"])


def _abandon(runtime: Runtime, domain: str, writer: LogWriter, event: Event) -> None:
    data = {"version": event.data["version"], "digest": event.data["digest"], "seq": event.seq}
    writer.append([NewEvent(ABANDONED, event.subject, event.actor, runtime.clock.now(), data)])
    runtime.store.discard(domain, event.subject, event.data["version"])


def next_version(current: Current, now: datetime, **fields: object) -> Entry:
    """Return the version after ``current`` with ``fields`` changed; its time never goes back."""
    if "version" in fields or "updated" in fields:
        message = "version and updated are set here"
        raise InternalError(message)
    entry = current.entry
    return replace(entry, version=entry.version + 1, updated=max(now, entry.updated), **fields)  # type: ignore[arg-type]
