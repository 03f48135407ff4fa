"""The gate that every path to an entry goes through: which domains, which entry, may this session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.domain.labels import Status
from amem_core.domain.names import check_domain, check_entry_id
from amem_core.errors import DeniedError, NotFoundError
from amem_core.services.looking import look

if TYPE_CHECKING:
    from amem_core.domain.entries import Entry
    from amem_core.domain.labels import Label
    from amem_core.domain.queries import ReadFilter
    from amem_core.runtime import Runtime
    from amem_core.services.committing import Current
    from amem_core.session import Session


def domains(session: Session, domain: str | None) -> ReadFilter:
    """Return what the session may read, cut to ``domain`` when one is named, with each domain settled.

    Raises:
        InvalidError: ``domain`` cannot name a domain.
        NotFoundError: the session does not hold it.
    """
    readable = session.readable
    if domain is not None:
        held(session, domain)
    readable = readable.narrowed(domain)
    for name in readable.domains:
        look(session.runtime, name)
    return readable


def held(session: Session, domain: str) -> str:
    """Return ``domain`` when the session holds it.

    Raises:
        InvalidError: it cannot name a domain.
        NotFoundError: the session does not hold it.
    """
    check_domain(domain)
    if domain not in session.readable.domains:
        names = ", ".join(sorted(session.readable.domains)) or "none"
        message = f"there is no domain {domain} for this session"
        raise NotFoundError(message, hint=f"this session holds: {names}; add one with amem init --domain NAME")
    return domain


def holds(runtime: Runtime, domain: str, id: str) -> bool:
    """Return whether the record of ``domain`` has an entry of this id, in whatever status and whoever may read it."""
    try:
        runtime.store.read(domain, id)
    except NotFoundError:
        return False
    return True


def locate(session: Session, id: str) -> tuple[str, Current]:
    """Return the domain and the current version of an entry that the session may read, settled and decided.

    Raises:
        InvalidError: ``id`` is no entry's id.
        NotFoundError: there is no such entry in a domain that the session holds.
        DeniedError: its label is above the session's ceiling, or another rule refuses.
    """
    from amem_core.services.committing import load

    id = check_entry_id(id)
    readable = domains(session, None)
    hit = session.runtime.index.find(id)
    names = [hit.domain] if hit is not None and hit.domain in readable.domains else sorted(readable.domains)
    for name in names:
        try:
            known = hit if hit is not None and hit.domain == name else None
            current = load(
                session.runtime,
                name,
                id,
                at=known.created if known else None,
                label=known.label if known else None,
            )
        except NotFoundError:
            continue
        if current.entry.status is Status.erased:
            _refuse_erased(session, current.entry)
        else:
            _refuse_restored(session, name, id)
        may_read(session, current.entry, current.entry.classification)
        return name, current
    message = f"there is no entry {id}"
    raise NotFoundError(message, hint="search for it; ids are copied from a search's answer")


def _refuse_erased(session: Session, entry: Entry) -> None:
    """Refuse an entry that was erased, whichever version of it is asked for; whoever may know of it is told so."""
    if session.readable.allows(entry.domain, entry.classification):
        message = f"{entry.id} was erased, with every version"
        raise DeniedError(message, hint=f"amem receipt show {entry.id} says when and why")


def _refuse_restored(session: Session, domain: str, id: str) -> None:
    """Refuse an entry that was erased and whose file somebody put back."""
    from amem_core.services.receipts import receipt_of

    receipt = receipt_of(session.runtime, domain, id)
    if receipt is not None and receipt["finished"] and not receipt.get("origin"):
        message = f"{id} was erased at {receipt['time']}, and its file was put back by hand"
        raise DeniedError(message, hint=f"take record/{domain}/{id}.md out of the record; amem fsck names it")


def may_read(session: Session, entry: Entry, label: Label) -> None:
    """Decide the reading of one entry under ``label``.

    Raises:
        DeniedError: the message says which label and which ceiling.
    """
    try:
        session.decide(
            "read",
            {
                "id": entry.id,
                "domain": entry.domain,
                "label": str(label),
                "status": str(entry.status),
                "type": entry.type,
            },
        )
    except DeniedError as exc:
        if label > session.ceiling:
            exc.hint = f"this session's ceiling is {session.ceiling}; a session with a higher ceiling can read it"
        raise
