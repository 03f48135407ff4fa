"""Reading one entry, whole: ``get``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from amem_core.domain.entries import Entry
from amem_core.domain.results import Reading
from amem_core.domain.spans import end_of, first_moment
from amem_core.errors import InvalidError, NotFoundError
from amem_core.services.chains import head_of
from amem_core.services.committing import Current
from amem_core.services.fencing import fence_entry
from amem_core.services.looking import alarms_of
from amem_core.services.masks import masks_of
from amem_core.services.notices import notices_of
from amem_core.services.reach import locate, may_read
from amem_core.services.tombstones import rejection

if TYPE_CHECKING:
    from datetime import datetime

    from amem_core.session import Session


def get(
    session: Session, id: str, *, version: int | None, as_of: datetime | None, valid_at: datetime | None = None
) -> Reading:
    """Return one version of one entry; see ``Session.get``."""
    if version is not None and as_of is not None:
        message = "a version and an as-of time were both given"
        raise InvalidError(message, hint="give one of them")
    masks = masks_of(as_of, valid_at)
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
    if valid_at is not None:
        _check_valid(chosen.entry, valid_at)
    session.served([label])
    head = (
        None if as_of is not None or not chosen.entry.superseded_by else head_of(session.runtime, domain, chosen.entry)
    )
    told = notices_of(chosen.entry, session.runtime.clock.now(), head=head)
    notices = (*alarms_of(session.runtime, [domain]), *_by_hand(chosen), *told, *_rejected(chosen.entry))
    if chosen.entry.version != current.entry.version:
        notices = (f"this is version {chosen.entry.version}; the current one is {current.entry.version}", *notices)
    return Reading(
        entry=chosen.entry,
        digest=chosen.digest,
        current_version=current.entry.version,
        head=None if head is None else head.id,
        fenced=fence_entry(chosen.entry, notices=notices, masks=masks),
        masks=masks,
        notices=notices,
    )


def _check_valid(entry: Entry, at: datetime) -> None:
    """Refuse an entry that is not true at ``at``; the message says when it is."""
    began = entry.valid_from is None or first_moment(entry.valid_from) <= at
    if began and (entry.valid_until is None or at < end_of(entry.valid_until)):
        return
    since = "the beginning" if entry.valid_from is None else entry.valid_from.isoformat()
    until = "further notice" if entry.valid_until is None else entry.valid_until.isoformat()
    message = f"{entry.id} is not true at {at.isoformat()}: it holds from {since} until {until}"
    raise NotFoundError(message, hint="leave valid-at out to read it all the same, or search for what held then")


def _by_hand(current: Current) -> tuple[str, ...]:
    if not current.by_hand:
        return ()
    return (f"{current.entry.id} was changed by hand and is not taken in yet: amem reindex does that",)


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
    """Return the version that was known then: the index knows when this memory learned each of them."""
    hit = session.runtime.index.find(current.entry.id, as_of=as_of)
    if hit is None:
        message = f"{current.entry.id} was not known at {as_of.isoformat()}"
        raise NotFoundError(message, hint="ask for a later time, or leave as-of out")
    same = hit.version == current.entry.version
    found = current if same else _earlier(session, domain, current.entry, hit.version)
    if found.digest != hit.digest:
        # A hand came after the time that is asked for: its text was not known then, and what was is not kept.
        message = (
            f"version {hit.version} of {hit.id} was known at {as_of.isoformat()}, and its file was changed by hand"
        )
        raise NotFoundError(message, hint="leave as-of out to read what the file says; amem fsck names it")
    return found


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
    # A hand may have set back the number in a file; what counts is the one that it is kept under.
    return Current(replace(earlier, version=number), digest(data))
