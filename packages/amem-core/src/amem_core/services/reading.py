"""Reading one entry, whole: ``get``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.domain.entries import Entry
from amem_core.domain.results import Reading
from amem_core.errors import InvalidError, NotFoundError
from amem_core.services.chains import head_of
from amem_core.services.committing import Current
from amem_core.services.fencing import fence_entry
from amem_core.services.notices import notices_of
from amem_core.services.reach import locate, may_read
from amem_core.services.tombstones import rejection

if TYPE_CHECKING:
    from datetime import datetime

    from amem_core.session import Session


def get(session: Session, id: str, *, version: int | None, as_of: datetime | None) -> Reading:
    """Return one version of one entry; see ``Session.get``."""
    if version is not None and as_of is not None:
        message = "a version and an as-of time were both given"
        raise InvalidError(message, hint="give one of them")
    domain, current = locate(session, id)
    chosen = current
    if version is not None:
        chosen = _by_number(session, domain, current, version)
    elif as_of is not None:
        chosen = _by_time(session, domain, current, as_of)
    # An earlier version is served under the higher of its own label and the current one's.
    label = max(chosen.entry.classification, current.entry.classification)
    if chosen is not current:
        may_read(session, chosen.entry, label)
    session.served([label])
    head = head_of(session.runtime, domain, chosen.entry) if chosen.entry.superseded_by else None
    notices = (*notices_of(chosen.entry, session.runtime.clock.now(), head=head), *_rejected(chosen.entry))
    if chosen.entry.version != current.entry.version:
        notices = (f"this is version {chosen.entry.version}; the current one is {current.entry.version}", *notices)
    return Reading(
        entry=chosen.entry,
        digest=chosen.digest,
        current_version=current.entry.version,
        head=head,
        fenced=fence_entry(chosen.entry, notices=notices),
        notices=notices,
    )


def _rejected(entry: Entry) -> tuple[str, ...]:
    item = rejection(entry)
    return () if item is None else (f"{entry.id} was rejected: {item.get('reason', '')}",)


def _by_number(session: Session, domain: str, current: Current, version: int) -> Current:
    if version == current.entry.version:
        return current
    if version < 1:
        message = f"{version} is not a version"
        raise InvalidError(message, hint="versions count from 1")
    return _earlier(session, domain, current.entry, version)


def _by_time(session: Session, domain: str, current: Current, as_of: datetime) -> Current:
    if as_of.tzinfo is None:
        message = f"{as_of.isoformat()} has no offset"
        raise InvalidError(message, hint="write the time with Z or an offset, as in 2026-11-30T12:00:00Z")
    if current.entry.updated <= as_of:
        return current
    for number in reversed(session.runtime.store.earlier_versions(domain, current.entry.id)):
        earlier = _earlier(session, domain, current.entry, number)
        if earlier.entry.updated <= as_of:
            return earlier
    message = f"{current.entry.id} was not known at {as_of.isoformat()}"
    raise NotFoundError(message, hint=f"it was written at {current.entry.created.isoformat()}")


def _earlier(session: Session, domain: str, entry: Entry, number: int) -> Current:
    from amem_core.format.entry import digest, parse

    store = session.runtime.store
    try:
        data = store.read(domain, entry.id, number)
    except NotFoundError as exc:
        kept = ", ".join(str(n) for n in [*store.earlier_versions(domain, entry.id), entry.version])
        message = f"{entry.id} has no version {number}"
        raise NotFoundError(message, hint=f"versions: {kept}") from exc
    earlier = parse(data, domain=domain, id=entry.id, fallback_time=entry.created, fallback_label=entry.classification)
    return Current(earlier, digest(data))
