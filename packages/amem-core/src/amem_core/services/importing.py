"""Taking a bundle in. Everything is checked before anything is written.

The log says when the import of a bundle, known by its manifest's digest, was begun and when it was
finished, so that one that was cut short goes on where it stopped, and no other does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from amem_core.domain.events import NewEvent
from amem_core.domain.results import Imported
from amem_core.errors import ConflictError, FormatError, InvalidError, UnavailableError
from amem_core.services import committing, travelling
from amem_core.services.arriving import Arrival
from amem_core.services.bundle_files import BundleReading
from amem_core.services.committing import IMPORTED, Change
from amem_core.services.exporting import landing
from amem_core.services.import_checks import BEGUN, FINISHED, Checks, Findings
from amem_core.services.reach import domains, held

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from amem_core.domain.entries import Entry
    from amem_core.format.bundle import ManifestEntry, ManifestReader, MarksFile
    from amem_core.ports.log import LogWriter
    from amem_core.session import Session

_GROUP = 200


def import_bundle(
    session: Session,
    path: str,
    *,
    domain: str | None,
    dry_run: bool = False,
    progress: Callable[[str, int], None] | None = None,
) -> Imported:
    """Check a bundle, then write it; see ``Session.import_bundle``."""
    from amem_core.format.bundle import MANIFEST

    with BundleReading(os.path.abspath(path)) as bundle, bundle.open(MANIFEST) as file:
        manifest = _manifest(bundle, file)
        into = held(session, domain or manifest.head.domain)
        session.decide("import", {"domain": into, "highest_label": str(manifest.head.highest_label)})
        domains(session, None)
        arrival = Arrival(session, into, bundle, manifest)
        if dry_run:
            return _answer(arrival, Checks(arrival, progress).run(), dry_run=True)
        with session.runtime.log.writer(into) as writer:
            committing.settle(session.runtime, into, writer)
            found = Checks(arrival, progress).run()
            try:
                notices = _take(arrival, found, writer, progress)
            except UnavailableError as exc:
                exc.hint = f"{exc.hint}; then import the same bundle again, which goes on where it stopped"
                raise
        return _answer(arrival, found, notices=notices)


def _manifest(bundle: BundleReading, file: BinaryIO) -> ManifestReader:
    from amem_core.format.bundle import ManifestReader

    try:
        return ManifestReader(file)
    except FormatError as exc:
        message = f"{bundle.path}: {exc}"
        raise InvalidError(message, hint=exc.hint or "export it again; nothing was imported") from exc


def _take(
    arrival: Arrival, found: Findings, writer: LogWriter, progress: Callable[[str, int], None] | None
) -> list[str]:
    """Write what was checked: what may not come back first, so that nothing comes in beside it meanwhile."""
    if not found.taken_up:
        writer.append([_event(arrival, BEGUN)])
    promoted: set[str] = set()
    for file in arrival.manifest.head.marks:
        if file.kind == "promotions":
            promoted = _take_promotions(arrival, found, file, progress)
        else:
            _take_closing(arrival, file)
    notices = _take_entries(arrival, found, writer, promoted, progress)
    writer.append([_event(arrival, FINISHED)])
    arrival.session.runtime.index.apply(arrival.into, [], through=writer.head)
    return notices


def _event(arrival: Arrival, kind: str) -> NewEvent:
    head = arrival.manifest.head
    facts = {
        "entries": len(arrival.manifest.labels),
        "from": head.domain,
        "label": str(head.highest_label),
        **{file.kind: file.digest for file in head.marks},
    }
    session = arrival.session
    return NewEvent(kind, arrival.manifest.digest, session.author, session.runtime.clock.now(), facts)


def _take_closing(arrival: Arrival, file: MarksFile) -> None:
    session, into = arrival.session, arrival.into
    for mark in arrival.marks(file):
        if file.kind == "receipts":
            travelling.receive_receipt(session, into, mark, origin=arrival.manifest.head.domain, save=True)
        else:
            travelling.receive_tombstone(session, into, mark, save=True)


def _take_promotions(
    arrival: Arrival, found: Findings, file: MarksFile, progress: Callable[[str, int], None] | None
) -> set[str]:
    """Keep the promotions of the entries that are about to land; return whose they are."""
    promoted = set[str]()
    group: dict[str, bytes] = {}
    for mark in arrival.marks(file):
        id = mark["id"]
        promoted.add(id)
        # An entry that has landed has its own, or was erased since.
        if id not in found.passed_over:
            group[id] = travelling.promotion_mark(arrival.into, mark)
        if len(group) >= _GROUP:
            _keep(arrival, group)
            group = {}
            if progress is not None:
                progress("promotions kept of", len(promoted))
    _keep(arrival, group)
    return promoted


def _keep(arrival: Arrival, promotions: dict[str, bytes]) -> None:
    """Save the promotions that are not kept as they are already."""
    store, into = arrival.session.runtime.store, arrival.into
    kept = store.marks_of(into, "promotions", list(promotions))
    for id, data in promotions.items():
        if kept.get(id) != data:
            store.save_mark(into, "promotions", id, data)


def _take_entries(
    arrival: Arrival,
    found: Findings,
    writer: LogWriter,
    promoted: set[str],
    progress: Callable[[str, int], None] | None,
) -> list[str]:
    runtime, into = arrival.session.runtime, arrival.into
    passed = found.passed_over
    told: dict[str, None] = {}
    taken = 0
    for batch, checkpoint in zip(arrival.batches(), found.checkpoints, strict=True):
        if arrival.manifest.so_far != checkpoint:
            message = "the manifest was changed while it was imported"
            raise ConflictError(message, hint="what has come in is whole; import the bundle as it is now")
        entries = [landing(entry, into) for line, entry in batch if line.id not in passed]
        _keep(
            arrival,
            _own_promotions(
                arrival, [each for each in batch if each[0].id not in promoted and each[0].id not in passed]
            ),
        )
        if entries:
            changes = [Change(entry, IMPORTED, None) for entry in entries]
            _, notices = committing.commit(runtime, into, writer, changes, actor=arrival.session.author)
            told.update(dict.fromkeys(notices))
        taken += len(batch)
        if progress is not None:
            progress("imported", taken)
    return list(told)


def _own_promotions(arrival: Arrival, batch: list[tuple[ManifestEntry, Entry]]) -> dict[str, bytes]:
    """Return the promotions of entries that the bundle lists none of.

    An older amem left in the file what the entry was promoted to. Where nothing is said, what an import
    that was given up may have left here is emptied.
    """
    into, domain = arrival.into, arrival.manifest.head.domain
    stale = arrival.session.runtime.store.marks_of(into, "promotions", [line.id for line, _ in batch])
    own: dict[str, bytes] = {}
    for line, entry in batch:
        record = travelling.own_record(domain, entry, line.digest)
        if record is not None or line.id in stale:
            records = [] if record is None else [record]
            own[line.id] = travelling.promotion_mark(into, {"id": line.id, "records": records})
    return own


def _answer(arrival: Arrival, found: Findings, *, notices: list[str] | None = None, dry_run: bool = False) -> Imported:
    counts = {file.kind: file.count for file in arrival.manifest.head.marks}
    return Imported(
        path=arrival.bundle.path,
        domain=arrival.into,
        ids=tuple(arrival.manifest.labels),
        receipts=counts.get("receipts", 0),
        tombstones=counts.get("tombstones", 0),
        promotions=counts.get("promotions", 0),
        there_already=len(found.passed_over),
        dry_run=dry_run,
        notices=(*found.notices, *(notices or ())),
    )
