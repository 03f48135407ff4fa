"""Writing a bundle: how memory leaves."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from amem_core.domain.labels import Label, Status
from amem_core.domain.results import Exported
from amem_core.errors import ConflictError, FormatError, UnavailableError
from amem_core.ports.store import Unreadable
from amem_core.services import committing
from amem_core.services.reach import domains, held

if TYPE_CHECKING:
    from amem_core.domain.entries import Entry
    from amem_core.format.bundle import ManifestEntry
    from amem_core.session import Session


def export(session: Session, domain: str, to: str, *, max_label: Label | None) -> Exported:
    """Write a bundle; see ``Session.export``. The manifest is written last: it is what makes a directory a bundle."""
    from amem_core.format.bundle import MANIFEST, Manifest, render_manifest

    held(session, domain)
    domains(session, domain)
    asked = None if max_label is None else str(Label.parse(max_label))
    decision = session.decide("export", {"domain": domain, "max_label": asked})
    highest = Label.parse(decision.obligations["max_label"])
    to = os.path.abspath(to)
    _make_room(to)
    lines, withheld = _entries(session, domain, to, highest)
    reached = max((line.classification for line in lines), default=Label.public)
    manifest = Manifest(
        domain=domain,
        created=session.runtime.clock.now(),
        by=session.author,
        highest_label=reached,
        max_label=highest,
        entries=tuple(lines),
    )
    _save(os.path.join(to, MANIFEST), render_manifest(manifest))
    session.served([reached])
    return Exported(
        path=to, domain=domain, entries=len(lines), highest_label=reached, max_label=highest, withheld=withheld
    )


def _make_room(to: str) -> None:
    try:
        os.makedirs(to, mode=0o700, exist_ok=True)
        if os.listdir(to):
            message = f"{to} is not empty"
            raise ConflictError(message, hint="name a new or empty directory")
        os.mkdir(os.path.join(to, "entries"), 0o700)
    except OSError as exc:
        message = f"{to} cannot take a bundle: {exc.strerror}"
        raise UnavailableError(message, hint="name a directory that this user may write to") from exc


def _entries(session: Session, domain: str, to: str, highest: Label) -> tuple[list[ManifestEntry], int]:
    """Write every current entry up to ``highest``; return their lines and how many were withheld."""
    from amem_core.format.bundle import ManifestEntry

    store = session.runtime.store
    lines: list[ManifestEntry] = []
    withheld = 0
    for stored in store.entries(domain):
        if isinstance(stored, Unreadable):
            continue
        try:
            current = committing.load(session.runtime, domain, stored.id)
        except FormatError:
            # A file that cannot be parsed has no label that could be checked: doctor reports it.
            withheld += 1
            continue
        if not _may_leave(session, current.entry, highest):
            withheld += 1
            continue
        data = store.read(domain, stored.id)
        line = ManifestEntry(stored.id, current.entry.version, current.digest, current.entry.classification)
        _save(os.path.join(to, line.path), data)
        lines.append(line)
    return lines, withheld


def _may_leave(session: Session, entry: Entry, highest: Label) -> bool:
    return (
        entry.classification <= highest
        and entry.status not in {Status.erased, Status.quarantined}
        and session.readable.allows(entry.domain, entry.classification)
    )


def _save(path: str, data: bytes) -> None:
    try:
        with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(data)
    except OSError as exc:
        message = f"{path} cannot be written: {exc.strerror}; the bundle is not whole"
        raise UnavailableError(message, hint="make room, remove the directory and export again") from exc
