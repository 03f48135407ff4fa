"""Erasure: every version's bytes go, a stub and a receipt stay."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from amem_core.domain.entries import Document, Entry
from amem_core.domain.events import NewEvent
from amem_core.domain.labels import Status, Tier
from amem_core.domain.names import check_entry_id
from amem_core.domain.results import Erased
from amem_core.errors import CorruptionError, InvalidError, NotFoundError
from amem_core.services import committing

if TYPE_CHECKING:
    from amem_core.ports.log import LogWriter
    from amem_core.session import Session

REASONS = ("requested", "mistaken", "sensitive", "legal")
ERASED = "entry.erased"
# Reasons for which the title may not stay, and for which neither author nor sources may.
_NO_TITLE = frozenset({"requested", "sensitive"})
_NO_AUTHOR = frozenset({"requested"})
_OUT_OF_REACH = ("bundles exported before", "transcripts of sessions that read it", "entries written from it")


def erase(session: Session, id: str, *, reason: str) -> Erased:
    """Erase an entry; see ``Session.erase``. Receipt first, then the log, the record and the index."""
    if reason not in REASONS:
        message = f"{reason!r} is no reason to erase"
        raise InvalidError(message, hint=f"one of: {', '.join(REASONS)}")
    id = check_entry_id(id)
    domain = _find(session, id)
    session.decide("erase", {"domain": domain, "id": id, "reason": reason})
    runtime = session.runtime
    with runtime.log.writer(domain) as writer:
        committing.settle(runtime, domain, writer)
        before = receipts(session, domain).get(id)
        if before is not None and before["finished"]:
            message = f"{id} was erased at {before['time']}"
            raise NotFoundError(message, hint="an entry is erased once; its receipt says what went")
        receipt = before or _receipt(session, domain, id, reason)
        if before is None:
            runtime.store.save_mark(domain, "erasures", id, _bytes(receipt))
        return _erase(session, domain, id, receipt, writer)


def receipts(session: Session, domain: str) -> dict[str, dict[str, Any]]:
    """Return the receipts of a domain by id.

    Raises:
        CorruptionError: one cannot be read.
    """
    found = {}
    for id, data in session.runtime.store.marks(domain, "erasures"):
        try:
            found[id] = json.loads(data)
        except ValueError as exc:
            message = f"the receipt of {id} in {domain} cannot be read: {exc}"
            raise CorruptionError(message, hint="restore it from a backup") from exc
    return found


def _find(session: Session, id: str) -> str:
    """Return the domain whose record holds ``id``, whether or not its file can be parsed."""
    for domain in sorted(session.readable.domains):
        try:
            session.runtime.store.read(domain, id)
        except NotFoundError:
            continue
        return domain
    message = f"there is no entry {id}"
    raise NotFoundError(message, hint="search for it; ids are copied from a search's answer")


def _erase(session: Session, domain: str, id: str, receipt: dict[str, Any], writer: LogWriter) -> Erased:
    from amem_core.format.entry import digest, render

    runtime = session.runtime
    stub = _stub(session, domain, id, receipt)
    data = render(stub)
    if not any(
        event.kind == ERASED and event.subject == id for event in runtime.log.read(domain, after=receipt["head"])
    ):
        facts = {"version": stub.version, "digest": digest(data), "reason": receipt["reason"]}
        writer.append([NewEvent(ERASED, id, session.author, stub.updated, facts)])
    runtime.store.erase(domain, id, data, stub.version)
    clean = runtime.index.forget(domain, id, Document(stub, digest(data), stub.updated))
    runtime.index.apply(domain, [], through=writer.head)
    receipt["finished"] = True
    runtime.store.save_mark(domain, "erasures", id, _bytes(receipt))
    return Erased(
        id=id,
        domain=domain,
        versions=tuple(item["version"] for item in receipt["versions"]),
        receipt=f"record/{domain}/.erasures/{id}.yaml",
        index_clean=clean,
        out_of_reach=_OUT_OF_REACH,
    )


def _receipt(session: Session, domain: str, id: str, reason: str) -> dict[str, Any]:
    """Return what is about to go and that it has not gone yet. JSON, which is YAML 1.2 as well."""
    from amem_core.format.entry import digest

    store = session.runtime.store
    current = committing.load(session.runtime, domain, id)
    versions = [
        *((number, digest(store.read(domain, id, number))) for number in store.earlier_versions(domain, id)),
        (current.entry.version, current.digest),
    ]
    return {
        "format": "durable-memory/receipt/0",
        "id": id,
        "domain": domain,
        "reason": reason,
        "by": session.author,
        "time": session.runtime.clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "head": session.runtime.log.head(domain),
        "versions": [{"version": number, "digest": key} for number, key in versions],
        "out_of_reach": list(_OUT_OF_REACH),
        "finished": False,
    }


def _stub(session: Session, domain: str, id: str, receipt: dict[str, Any]) -> Entry:
    """Return what stays of the entry; the same stub whenever an erasure is taken up again."""
    from datetime import datetime

    entry = committing.load(session.runtime, domain, id).entry
    reason = receipt["reason"]
    time = datetime.fromisoformat(receipt["time"])
    return replace(
        Entry(
            id=id,
            version=max(item["version"] for item in receipt["versions"]) + 1,
            type=entry.type,
            domain=domain,
            title="(erased)" if reason in _NO_TITLE else entry.title,
            summary="",
            body="",
            author="owner" if reason in _NO_AUTHOR else entry.author,
            created=entry.created,
            updated=time,
            classification=entry.classification,
        ),
        trust_tier=Tier.raw,
        status=Status.erased,
        source=() if reason in _NO_AUTHOR else entry.source,
    )


def _bytes(receipt: dict[str, Any]) -> bytes:
    return json.dumps(receipt, indent=2, ensure_ascii=False).encode() + b"\n"
