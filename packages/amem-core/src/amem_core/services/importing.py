"""Taking a bundle in. Everything is checked before anything is written."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

from amem_core.domain.labels import Status, Tier
from amem_core.domain.results import Imported
from amem_core.errors import ConflictError, FormatError, InvalidError, NotFoundError, UnavailableError
from amem_core.services import committing
from amem_core.services.committing import IMPORTED, Change
from amem_core.services.erase import receipts
from amem_core.services.reach import domains, held, holds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amem_core.domain.entries import Entry
    from amem_core.format.bundle import Manifest, ManifestEntry
    from amem_core.session import Session

LARGEST_ENTRY = 32 * 1024 * 1024
_BATCH = 500


def import_bundle(session: Session, path: str, *, domain: str | None) -> Imported:
    """Check a bundle, then write it; see ``Session.import_bundle``."""
    path = os.path.abspath(path)
    manifest = _manifest(path)
    into = held(session, domain or manifest.domain)
    session.decide("import", {"domain": into, "highest_label": str(manifest.highest_label)})
    domains(session, None)
    runtime = session.runtime
    with runtime.log.writer(into) as writer:
        committing.settle(runtime, into, writer)
        for line in manifest.entries:
            _check_entry(path, manifest, line)
        _check_new(session, into, manifest.entries)
        for first in range(0, len(manifest.entries), _BATCH):
            batch = manifest.entries[first : first + _BATCH]
            changes = [Change(_landing(_check_entry(path, manifest, line), into), IMPORTED, None) for line in batch]
            committing.commit(runtime, into, writer, changes, actor=session.author)
    return Imported(path=path, domain=into, ids=tuple(line.id for line in manifest.entries))


def _manifest(path: str) -> Manifest:
    from amem_core.format.bundle import MANIFEST, MAX_MANIFEST, parse_manifest

    if not os.path.isdir(path):
        message = f"{path} is no directory"
        raise NotFoundError(message, hint="a bundle is a directory that amem export wrote")
    data = _read(path, MANIFEST, MAX_MANIFEST)
    try:
        return parse_manifest(data)
    except FormatError as exc:
        message = f"{path}: {exc}"
        raise InvalidError(message, hint=exc.hint or "export it again; nothing was imported") from exc


def _read(top: str, relative: str, largest: int) -> bytes:
    """Return a file of the bundle; a symbolic link is none, wherever on the way it stands.

    Raises:
        InvalidError: it is missing, no plain file, or too large.
        UnavailableError: it cannot be read.
    """
    path = top
    for part in relative.split("/"):
        path = os.path.join(path, part)
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError as exc:
            message = f"the bundle has no {relative}"
            raise InvalidError(message, hint="export it again; nothing was imported") from exc
        except OSError as exc:
            message = f"{path} cannot be read: {exc.strerror}"
            raise UnavailableError(message, hint="give this user read permission on it") from exc
        if stat.S_ISLNK(mode):
            message = f"{path} is a symbolic link and leaves the bundle"
            raise InvalidError(message, hint="export it again; nothing was imported")
    try:
        with open(path, "rb") as file:
            data = file.read(largest + 1)
    except OSError as exc:
        message = f"{path} cannot be read: {exc.strerror}"
        raise UnavailableError(message, hint="give this user read permission on it") from exc
    if len(data) > largest:
        message = f"{relative} is larger than {largest} bytes"
        raise InvalidError(message, hint="no amem wrote this bundle; nothing was imported")
    return data


def _check_entry(path: str, manifest: Manifest, line: ManifestEntry) -> Entry:
    """Return the entry of one line when its file is what the line says.

    Raises:
        InvalidError: digest, id, version or label differ, or the file is no entry.
    """
    from amem_core.format.entry import digest, parse

    data = _read(path, line.path, LARGEST_ENTRY)
    if digest(data) != line.digest:
        message = f"{line.path} does not have the digest that the manifest gives: it was changed after the export"
        raise InvalidError(message, hint="export it again; nothing was imported")
    try:
        entry = parse(data, domain=manifest.domain, id=line.id, path=line.path)
    except FormatError as exc:
        message = f"the bundle holds a broken entry: {exc}"
        raise InvalidError(message, hint=f"{exc.hint}; nothing was imported") from exc
    if entry.version != line.version:
        message = f"{line.path} is version {entry.version} and the manifest says {line.version}"
        raise InvalidError(message, hint="no amem wrote this bundle; nothing was imported")
    if entry.classification is not line.classification:
        message = f"{line.path} is {entry.classification} and the manifest says {line.classification}"
        raise InvalidError(message, hint="no amem wrote this bundle; nothing was imported")
    if entry.status in {Status.erased, Status.quarantined}:
        message = f"{line.id} is {entry.status}, which does not travel"
        raise InvalidError(message, hint="no amem wrote this bundle; nothing was imported")
    return entry


def _check_new(session: Session, into: str, lines: Iterable[ManifestEntry]) -> None:
    """Refuse what is there already, what belongs to another domain, and what was erased here."""
    store = session.runtime.store
    gone = receipts(session, into)
    removed = {item["digest"]: id for id, receipt in gone.items() for item in receipt["versions"]}
    everywhere = sorted({into, *store.domains()})
    for line in lines:
        if line.id in gone or line.digest in removed:
            erased = line.id if line.id in gone else removed[line.digest]
            message = f"{line.id} was erased here (receipt of {erased}) and does not come back"
            raise ConflictError(message, hint="take it out of the bundle at its origin")
        for domain in everywhere:
            if not holds(session.runtime, domain, line.id):
                continue
            if domain == into:
                message = f"{line.id} is in {into} already"
                raise ConflictError(message, hint="the same entry is not imported twice; nothing was imported")
            message = f"the id {line.id} is in use elsewhere in this record"
            raise ConflictError(message, hint="an id in use is never taken over; nothing was imported")


def _landing(entry: Entry, into: str) -> Entry:
    """Return the entry as it lands: at tier raw, verified by nobody here."""
    return replace(entry, domain=into, trust_tier=Tier.raw, verified=())
