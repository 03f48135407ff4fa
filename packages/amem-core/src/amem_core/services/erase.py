"""Erasure: every version's bytes go, a stub and a receipt stay, and nothing brings the text back.

The order: the receipt, saying that it has not finished; the event, which holds the log to the receipt;
what was made of the text below the root; the record, the tombstones of the values, the index; and the
entries that cite it. A run that stops short is taken up by the next one, step by step.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from amem_core.domain.entries import Document, Entry
from amem_core.domain.events import NewEvent
from amem_core.domain.labels import Label, Status, Tier
from amem_core.domain.names import check_entry_id
from amem_core.domain.results import Erased
from amem_core.errors import FormatError, InvalidError, NotFoundError
from amem_core.services import citing, committing, sweeping, tombstones
from amem_core.services import receipts as accounts
from amem_core.services.committing import ERASED
from amem_core.services.receipts import receipt_of, receipts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from amem_core.ports.log import LogWriter
    from amem_core.session import Session

__all__ = ["ERASED", "REASONS", "erase", "receipts"]

REASONS = ("requested", "mistaken", "sensitive", "legal")
# Reasons for which the title may not stay, and for which neither author nor sources may.
_NO_TITLE = frozenset({"requested", "sensitive"})
_NO_AUTHOR = frozenset({"requested"})
_OUT_OF_REACH = (
    "bundles and copies that left this root before",
    "transcripts of sessions that read it, and what they wrote from it",
    "who acted, by surface, in the log and in the decisions",
    "file system snapshots and backups",
)


def erase(session: Session, id: str, *, reason: str, dry_run: bool = False) -> Erased:
    """Erase an entry; see ``Session.erase``."""
    if reason not in REASONS:
        message = f"{reason!r} is no reason to erase"
        raise InvalidError(message, hint=f"one of: {', '.join(REASONS)}")
    id = check_entry_id(id)
    domain = _find(session, id)
    session.decide("erase", {"domain": domain, "id": id, "reason": reason})
    runtime = session.runtime
    with runtime.log.writer(domain) as writer:
        committing.settle(runtime, domain, writer)
        before = receipt_of(runtime, domain, id)
        if before is not None and before["finished"] and before.get("index_clean", True):
            message = f"{id} was erased at {before['time']}"
            raise NotFoundError(message, hint="an entry is erased once; amem receipt show says what went")
        receipt = before or _receipt(session, domain, id, reason)
        wanted = sweeping.needles(_texts(session, domain, id), with_title=receipt["reason"] in _NO_TITLE)
        if dry_run:
            return _foreseen(session, domain, receipt, wanted)
        if before is None:
            accounts.save(runtime, domain, receipt)
        clean = _erase(session, domain, receipt, wanted, writer)
    flagged = [flag for name in sorted(session.readable.domains) for flag in _flag(session, name, id)]
    receipt.update(
        flagged=sorted({*receipt.get("flagged", ()), *flagged}),
        index_clean=clean,
        finished=True,
    )
    accounts.save(runtime, domain, receipt)
    return _erased(receipt)


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


def _erase(session: Session, domain: str, receipt: dict[str, Any], wanted: list[bytes], writer: LogWriter) -> bool:
    """Log the erasure and do it below the root; return whether the index's files are clean.

    What was made of the text goes before the record's own: without the text nobody could look for it.
    """
    from amem_core.format.entry import digest, render

    runtime, id = session.runtime, receipt["id"]
    stub = _stub(session, domain, receipt)
    data = render(stub)
    event = _logged(session, domain, receipt)
    if event is None:
        facts = {
            "version": stub.version,
            "digest": digest(data),
            "reason": receipt["reason"],
            "receipt": accounts.core_digest(receipt),
        }
        (event,) = writer.append([NewEvent(ERASED, id, session.author, stub.updated, facts)])
    swept = sweeping.sweep(runtime.root, domain, id, wanted)
    receipt.update(
        event={"seq": event.seq, "chain": event.chain},
        swept=sorted({*receipt.get("swept", ()), *swept.cleaned}),
        left=sorted({*receipt.get("left", ()), *swept.left}),
    )
    accounts.save(runtime, domain, receipt)
    runtime.settled.discard(domain)
    runtime.followed.discard(domain)
    runtime.store.erase(domain, id, data, stub.version)
    tombstones.project_erased(runtime, domain, receipt)
    clean = runtime.index.forget(domain, id, Document(stub, digest(data), stub.updated))
    runtime.index.apply(domain, [], through=writer.head)
    return clean


def _logged(session: Session, domain: str, receipt: dict[str, Any]) -> Any:
    for event in session.runtime.log.read(domain, after=receipt["head"]):
        if event.kind == ERASED and event.subject == receipt["id"]:
            return event
    return None


def _texts(session: Session, domain: str, id: str) -> Iterator[Entry]:
    """Yield every version that can be read, the current one last."""
    for number in (*session.runtime.store.earlier_versions(domain, id), None):
        with suppress(FormatError, NotFoundError):
            yield _parsed(session, domain, id, number)


def _parsed(session: Session, domain: str, id: str, number: int | None) -> Entry:
    from amem_core.format.entry import parse

    return parse(
        session.runtime.store.read(domain, id, number),
        domain=domain,
        id=id,
        fallback_time=session.runtime.clock.now(),
        fallback_label=Label.restricted,
    )


def _receipt(session: Session, domain: str, id: str, reason: str) -> dict[str, Any]:
    """Return what is about to go and that it has not gone yet; a version that cannot be parsed goes by its digest."""
    from amem_core.format.entry import digest

    store, now = session.runtime.store, session.runtime.clock.now()
    earlier = store.earlier_versions(domain, id)
    versions = [{"version": number, "digest": digest(store.read(domain, id, number))} for number in earlier]
    texts = list(_texts(session, domain, id))
    try:
        number = _parsed(session, domain, id, None).version
    except FormatError:
        number = max(earlier, default=0) + 1
    versions.append({"version": number, "digest": digest(store.read(domain, id))})
    return {
        "format": accounts.FORMAT,
        "id": id,
        "domain": domain,
        "label": str(max((text.classification for text in texts), default=Label.restricted)),
        "reason": reason,
        "by": session.author,
        "time": _instant(now),
        "head": session.runtime.log.head(domain),
        "versions": versions,
        "values": sorted({key for text in texts for key in tombstones.keys_of(text)}),
        "out_of_reach": list(_OUT_OF_REACH),
        "finished": False,
    }


def _stub(session: Session, domain: str, receipt: dict[str, Any]) -> Entry:
    """Return what stays of the entry; the same stub whenever an erasure is taken up again."""
    from datetime import datetime

    reason = receipt["reason"]
    time = datetime.fromisoformat(receipt["time"])
    entry = _entry(session, domain, receipt, time)
    return replace(
        Entry(
            id=entry.id,
            version=max(item["version"] for item in receipt["versions"]) + 1,
            type=entry.type,
            domain=domain,
            title="(erased)" if reason in _NO_TITLE else entry.title,
            summary="",
            body="",
            author="owner" if reason in _NO_AUTHOR else entry.author,
            created=entry.created,
            updated=max(time, entry.updated) if entry.status is not Status.erased else entry.updated,
            classification=entry.classification,
        ),
        trust_tier=Tier.raw,
        status=Status.erased,
        source=() if reason in _NO_AUTHOR else entry.source,
        supersedes=entry.supersedes,
        superseded_by=entry.superseded_by,
    )


def _entry(session: Session, domain: str, receipt: dict[str, Any], time: datetime) -> Entry:
    """Return the entry as it stands; for a file that is none, as little as an entry can be."""
    id = receipt["id"]
    try:
        return _parsed(session, domain, id, None)
    except FormatError:
        return Entry(
            id=id,
            version=1,
            type="reference",
            domain=domain,
            title="(erased)",
            summary="",
            body="",
            author="owner",
            created=time,
            updated=time,
            classification=Label.restricted,
        )


def _flag(session: Session, domain: str, id: str) -> list[str]:
    """Make every entry of a domain that cites the erased one due for review; return the ids of those that do."""
    runtime = session.runtime
    found = [current for current in citing.citing(runtime, domain, id) if current.entry.status is not Status.erased]
    if not found:
        return []
    with runtime.log.writer(domain) as writer:
        committing.settle(runtime, domain, writer)
        again = [committing.load(runtime, domain, current.entry.id) for current in found]
        changes = citing.flagged_changes(again, runtime.clock.now())
        if changes:
            committing.commit(runtime, domain, writer, changes, actor=session.author)
    return [current.entry.id for current in found]


def _foreseen(session: Session, domain: str, receipt: dict[str, Any], wanted: list[bytes]) -> Erased:
    """Return what an erasure would do, with nothing done."""
    runtime = session.runtime
    swept = sweeping.sweep(runtime.root, domain, receipt["id"], wanted, dry_run=True)
    flagged = [
        current.entry.id
        for name in sorted(session.readable.domains)
        for current in citing.citing(runtime, name, receipt["id"])
    ]
    foreseen = {
        **receipt,
        "flagged": flagged,
        "swept": sorted(swept.cleaned),
        "left": sorted(swept.left),
        "index_clean": True,
    }
    return replace(_erased(foreseen), dry_run=True)


def _erased(receipt: dict[str, Any]) -> Erased:
    return Erased(
        id=receipt["id"],
        domain=receipt["domain"],
        versions=tuple(item["version"] for item in receipt["versions"]),
        receipt=f"record/{receipt['domain']}/.erasures/{receipt['id']}.yaml",
        index_clean=receipt["index_clean"],
        flagged=tuple(receipt["flagged"]),
        swept=tuple(receipt["swept"]),
        left=tuple(receipt["left"]),
        out_of_reach=tuple(receipt["out_of_reach"]),
    )


def _instant(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
