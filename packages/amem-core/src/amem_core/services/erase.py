"""Erasure: every version's bytes go, a stub and a receipt stay, and nothing brings the text back.

The order: the receipt, saying that it has not finished; the event, which holds the log to the receipt;
what was made of the text below the root; the record, the tombstones of the values, the index; and the
entries that cite it. A run that stops short is taken up by the next one, step by step.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from amem_core.domain.entries import Document, Entry
from amem_core.domain.events import NewEvent
from amem_core.domain.labels import Label, Status, Tier
from amem_core.domain.names import check_entry_id
from amem_core.domain.results import Erased
from amem_core.errors import ConflictError, FormatError, InvalidError, NotFoundError
from amem_core.services import citing, committing, tombstones
from amem_core.services import receipts as accounts
from amem_core.services.bundle_sweeping import Closing
from amem_core.services.committing import ERASED
from amem_core.services.evidence import Evidence
from amem_core.services.reach import holds
from amem_core.services.receipts import receipt_of, receipts
from amem_core.services.sweeping import sweep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amem_core.domain.events import Event
    from amem_core.ports.log import LogWriter
    from amem_core.runtime import Runtime
    from amem_core.services.sweeping import Swept
    from amem_core.session import Session

__all__ = ["ERASED", "REASONS", "erase", "receipts"]

REASONS = ("requested", "mistaken", "sensitive", "legal")
# Reasons for which the title may not stay, and for which neither author nor sources may.
_NO_TITLE = frozenset({"requested", "sensitive"})
_NO_AUTHOR = frozenset({"requested"})
_ERASED = "(erased)"
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
        receipt, event = _begun(session, domain, id, reason)
        evidence = Evidence(id, _texts(session, domain, id), with_title=receipt["reason"] in _NO_TITLE)
        if dry_run:
            return _foreseen(session, receipt, evidence)
        if event is None:
            accounts.save(runtime, domain, receipt)
        clean = _erase(session, receipt, event, evidence, writer)
    for name in sorted(session.readable.domains):
        _flag(session, name, receipt)
    receipt.update(index_clean=clean, finished=True)
    accounts.save(runtime, domain, receipt)
    return _erased(receipt)


def _find(session: Session, id: str) -> str:
    """Return the domain that has or had the entry, whether or not its file can be parsed, or is there still."""
    runtime, domains = session.runtime, sorted(session.readable.domains)
    for domain in domains:
        if holds(runtime, domain, id) or runtime.store.earlier_versions(domain, id):
            return domain
    for domain in domains:
        receipt = receipt_of(runtime, domain, id)
        if (receipt is not None and not receipt.get("origin")) or _named(runtime, domain, id):
            return domain
    message = f"there is no entry {id}"
    raise NotFoundError(message, hint="search for it; ids are copied from a search's answer")


# -- what is about to go ------------------------------------------------------------------------------


def _begun(session: Session, domain: str, id: str, reason: str) -> tuple[dict[str, Any], Event | None]:
    """Return the receipt to work by, and the event of the erasure when that is in the log already.

    What the log holds to its event is taken up as it is; when there are bytes that it does not name,
    because they were written or put back since, a new one names all.

    Raises:
        NotFoundError: the entry was erased, and nothing of it is there.
        ConflictError: the erasure was begun for another reason.
    """
    runtime = session.runtime
    before = receipt_of(runtime, domain, id)
    event = None if before is None or before.get("origin") else _logged(runtime, domain, before)
    if before is None or event is None:
        return _receipt(session, (domain, id), reason, before, event), None
    texts = [item for item in _there(runtime, domain, id) if item["digest"] != event.data["digest"]]
    if before["finished"] and not texts and before.get("index_clean", True):
        message = f"{id} was erased at {before['time']}"
        raise NotFoundError(message, hint="an entry is erased once; amem receipt show says what went")
    named = {item["digest"] for item in before["versions"]}
    if any(item["digest"] not in named for item in texts) or not _makes(session, before, event):
        return _receipt(session, (domain, id), reason, before, event), None
    if before["reason"] != reason:
        message = f"the erasure of {id} was begun as {before['reason']} and has not finished"
        raise ConflictError(message, hint=f"finish it: amem erase {id} --reason {before['reason']}")
    return before, event


def _makes(session: Session, receipt: dict[str, Any], event: Event) -> bool:
    """Return whether what is there makes the stub that the event names."""
    from amem_core.format.entry import digest, render

    return bool(digest(render(_stub(session, receipt))) == event.data["digest"])


def _there(runtime: Runtime, domain: str, id: str) -> list[dict[str, Any]]:
    """Return number and digest of every version that the record holds, the current one last."""
    from amem_core.format.entry import digest

    store = runtime.store
    numbers = store.earlier_versions(domain, id)
    found = [{"version": number, "digest": digest(store.read(domain, id, number))} for number in numbers]
    with suppress(NotFoundError):
        data = store.read(domain, id)
        try:
            number = _parsed(domain, id, data, runtime.clock.now()).version
        except FormatError:
            number = max(numbers, default=0) + 1
        found.append({"version": number, "digest": digest(data)})
    return found


def _named(runtime: Runtime, domain: str, id: str) -> list[dict[str, Any]]:
    """Return number and digest of the versions that the log names: all that is known of files that are gone."""
    return [
        {"version": event.data["version"], "digest": event.data["digest"]}
        for event in runtime.log.read(domain)
        if event.subject == id and event.kind.startswith("entry.") and event.kind != committing.ABANDONED
    ]


def _texts(session: Session, domain: str, id: str) -> Iterator[Entry]:
    """Yield every version that can be read, the current one last."""
    runtime = session.runtime
    for number in (*runtime.store.earlier_versions(domain, id), None):
        with suppress(FormatError, NotFoundError):
            yield _parsed(domain, id, runtime.store.read(domain, id, number), runtime.clock.now())


def _parsed(domain: str, id: str, data: bytes, time: datetime) -> Entry:
    """Return the entry that the bytes hold; what they do not say is taken for the strictest.

    Raises:
        FormatError: they hold none.
    """
    from amem_core.format.entry import parse

    return parse(data, domain=domain, id=id, fallback_time=time, fallback_label=Label.restricted)


def _receipt(
    session: Session, was: tuple[str, str], reason: str, before: dict[str, Any] | None, event: Event | None
) -> dict[str, Any]:
    """Return what is about to go and that it has not gone yet; a version that cannot be parsed goes by its digest.

    What an earlier receipt of the entry names stays named, and so does the stub of that erasure.
    """
    runtime, (domain, id) = session.runtime, was
    texts = [text for text in _texts(session, domain, id) if text.status is not Status.erased]
    versions = [*(before or {}).get("versions", ()), *(_there(runtime, domain, id) or _named(runtime, domain, id))]
    if event is not None:
        versions.append({"version": event.data["version"], "digest": event.data["digest"]})
    labels = [text.classification for text in texts]
    if before is not None:
        labels.append(Label.parse(before.get("label", "restricted")))
    once = {(item["version"], item["digest"]): item for item in versions}
    return {
        "format": accounts.FORMAT,
        "id": id,
        "domain": domain,
        "label": str(max(labels, default=Label.restricted)),
        "reason": reason,
        "by": session.author,
        "time": _instant(runtime.clock.now()),
        "head": runtime.log.head(domain),
        "versions": [dict(once[key]) for key in sorted(once)],
        "values": sorted(
            {*(before or {}).get("values", ()), *(key for text in texts for key in tombstones.keys_of(text))}
        ),
        "out_of_reach": list(_OUT_OF_REACH),
        "finished": False,
        **{name: before[name] for name in ("flagged", "swept", "left") if before is not None and name in before},
    }


def _logged(runtime: Runtime, domain: str, receipt: dict[str, Any]) -> Event | None:
    for event in runtime.log.read(domain, after=receipt["head"]):
        if event.kind == ERASED and event.subject == receipt["id"]:
            return event
    return None


# -- doing it -----------------------------------------------------------------------------------------


def _erase(
    session: Session, receipt: dict[str, Any], event: Event | None, evidence: Evidence, writer: LogWriter
) -> bool:
    """Log the erasure and do it below the root; return whether the index's files are clean.

    What was made of the text goes before the record's own: without the text nobody could look for it.
    """
    from amem_core.format.entry import digest, render
    from amem_core.services.travelling import promotion_mark

    runtime, domain, id = session.runtime, receipt["domain"], receipt["id"]
    stub = _stub(session, receipt)
    data = render(stub)
    if event is None:
        facts = {
            "version": stub.version,
            "digest": digest(data),
            "reason": receipt["reason"],
            "receipt": accounts.core_digest(receipt),
        }
        (event,) = writer.append([NewEvent(ERASED, id, session.author, stub.updated, facts)])
        runtime.settled.discard(domain)
        runtime.followed.discard(domain)
    swept = _swept(runtime, receipt, evidence, dry_run=False)
    receipt.update(
        event={"seq": event.seq, "chain": event.chain},
        swept=sorted({*receipt.get("swept", ()), *swept.cleaned}),
        left=sorted({*receipt.get("left", ()), *swept.left}),
    )
    accounts.save(runtime, domain, receipt)
    runtime.store.erase(domain, id, data, stub.version)
    if runtime.store.marks_of(domain, "promotions", [id]):
        runtime.store.save_mark(domain, "promotions", id, promotion_mark(domain, {"id": id, "records": []}))
    tombstones.project_erased(runtime, domain, receipt)
    clean = runtime.index.forget(domain, id, Document(stub, digest(data), stub.updated))
    runtime.index.apply(domain, [], through=writer.head)
    return clean


def _swept(runtime: Runtime, receipt: dict[str, Any], evidence: Evidence, *, dry_run: bool) -> Swept:
    closing = Closing(receipt["id"], receipt["domain"], receipt["reason"], receipt["by"], receipt["time"])
    engines = (*runtime.index.capabilities.files, *runtime.ledger.capabilities.files)
    return sweep(runtime.root, closing, evidence, engines=engines, dry_run=dry_run)


def _stub(session: Session, receipt: dict[str, Any]) -> Entry:
    """Return what stays of the entry; the same stub whenever an erasure is taken up again."""
    reason = receipt["reason"]
    time = datetime.fromisoformat(receipt["time"])
    entry = _entry(session, receipt, time)
    return replace(
        Entry(
            id=entry.id,
            version=max(item["version"] for item in receipt["versions"]) + 1,
            type=entry.type,
            domain=entry.domain,
            title=_ERASED if reason in _NO_TITLE else entry.title,
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


def _entry(session: Session, receipt: dict[str, Any], time: datetime) -> Entry:
    """Return the entry as it stands; for a file that is none, or is gone, as little as an entry can be."""
    runtime, domain, id = session.runtime, receipt["domain"], receipt["id"]
    try:
        return _parsed(domain, id, runtime.store.read(domain, id), time)
    except (FormatError, NotFoundError):
        return Entry(
            id=id,
            version=1,
            type="reference",
            domain=domain,
            title=_ERASED,
            summary="",
            body="",
            author="owner",
            created=time,
            updated=time,
            classification=Label.restricted,
        )


# -- what is told -------------------------------------------------------------------------------------


def _flag(session: Session, domain: str, receipt: dict[str, Any]) -> None:
    """Make every entry of a domain that cites the erased one due for review; one that cannot be is named as left."""
    runtime = session.runtime
    for id in list(_citing(runtime, domain, receipt["id"])):
        try:
            with runtime.log.writer(domain) as writer:
                committing.settle(runtime, domain, writer)
                changes = citing.flagged_changes([committing.load(runtime, domain, id)], runtime.clock.now())
                if changes:
                    committing.commit(runtime, domain, writer, changes, actor=session.author)
        except NotFoundError:
            continue
        except (ConflictError, FormatError) as exc:
            place = f"record/{domain}/{id}.md: it cites the entry and cannot be made due for review: {exc}"
            receipt["left"] = sorted({*receipt["left"], place})
        else:
            receipt["flagged"] = sorted({*receipt.get("flagged", ()), id})


def _citing(runtime: Runtime, domain: str, id: str) -> Iterator[str]:
    for current in citing.citing(runtime, domain, id):
        if current.entry.status is not Status.erased:
            yield current.entry.id


def _foreseen(session: Session, receipt: dict[str, Any], evidence: Evidence) -> Erased:
    """Return what an erasure would do, with nothing done."""
    runtime = session.runtime
    swept = _swept(runtime, receipt, evidence, dry_run=True)
    flagged = [id for name in sorted(session.readable.domains) for id in _citing(runtime, name, receipt["id"])]
    foreseen = {
        **receipt,
        "flagged": sorted(flagged),
        "swept": swept.cleaned,
        "left": swept.left,
        "index_clean": True,
    }
    return replace(_erased(foreseen), dry_run=True)


def _erased(receipt: dict[str, Any]) -> Erased:
    return Erased(
        id=receipt["id"],
        domain=receipt["domain"],
        versions=tuple(sorted({item["version"] for item in receipt["versions"]})),
        receipt=f"record/{receipt['domain']}/.erasures/{receipt['id']}.yaml",
        index_clean=receipt["index_clean"],
        flagged=tuple(receipt.get("flagged", ())),
        swept=tuple(receipt["swept"]),
        left=tuple(receipt["left"]),
        out_of_reach=tuple(receipt["out_of_reach"]),
    )


def _instant(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
