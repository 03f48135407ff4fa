"""Receipts: the durable account of an erasure, and how anybody checks it against the log.

What a receipt says when the erasure begins is its core. The SHA-256 of the core stands in the
``entry.erased`` event, so that the hash chain of the log holds the receipt to what it said; what is
learned later (what was flagged, swept or left, and that it has finished) stands beside it.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from amem_core.domain.names import check_entry_id
from amem_core.domain.results import Receipt
from amem_core.errors import CorruptionError, NotFoundError
from amem_core.services.committing import ERASED
from amem_core.services.reach import held

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from amem_core.domain.events import Event
    from amem_core.runtime import Runtime
    from amem_core.session import Session

FORMAT = "durable-memory/receipt/0"
CORE = ("format", "id", "domain", "label", "reason", "by", "time", "head", "versions", "values", "out_of_reach")


def receipts(session: Session, domain: str) -> dict[str, dict[str, Any]]:
    """Return the receipts of a domain by id.

    Raises:
        CorruptionError: one cannot be read.
    """
    return dict(_all(session.runtime, domain))


def receipt_of(runtime: Runtime, domain: str, id: str) -> dict[str, Any] | None:
    """Return the receipt of one entry, None when there is none.

    Raises:
        CorruptionError: it cannot be read.
    """
    data = runtime.store.marks_of(domain, "erasures", [id]).get(id)
    return None if data is None else _parsed(domain, id, data)


def save(runtime: Runtime, domain: str, receipt: Mapping[str, Any]) -> None:
    """Write a receipt, durable on return. It is JSON, which is YAML 1.2 as well."""
    data = json.dumps(receipt, indent=2, ensure_ascii=False).encode() + b"\n"
    runtime.store.save_mark(domain, "erasures", receipt["id"], data)


def core_digest(receipt: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a receipt's core in canonical JSON: sorted names, no blanks, no escapes beyond JSON's own."""
    core = {name: receipt[name] for name in CORE if name in receipt}
    text = json.dumps(core, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def show(session: Session, id: str) -> Receipt:
    """Return a receipt, checked against the log; see ``Session.receipt``."""
    id = check_entry_id(id)
    for domain in sorted(session.readable.domains):
        receipt = receipt_of(session.runtime, domain, id)
        if receipt is not None and session.readable.allows(domain, _label(receipt)):
            return _checked(domain, receipt, _erasures(session.runtime, domain))
    message = f"there is no receipt of {id}"
    raise NotFoundError(message, hint="amem receipt list names what was erased")


def listed(session: Session, domain: str | None) -> list[Receipt]:
    """Return the receipts of a domain, or of all that the session holds; see ``Session.receipts``."""
    if domain is not None:
        held(session, domain)
    readable = session.readable.narrowed(domain)
    found = []
    for name in sorted(readable.domains):
        own = [receipt for _, receipt in _all(session.runtime, name) if readable.allows(name, _label(receipt))]
        # The log is read once for all of them.
        events: dict[str, list[Event]] = {}
        for event in _erasures(session.runtime, name) if own else ():
            events.setdefault(event.subject, []).append(event)
        found += [_checked(name, receipt, events.get(receipt["id"], ())) for receipt in own]
    return found


def _erasures(runtime: Runtime, domain: str) -> Iterator[Event]:
    """Yield the events of erasures. Reading the log from its beginning checks its chain."""
    return (event for event in runtime.log.read(domain) if event.kind == ERASED)


def _all(runtime: Runtime, domain: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for id, data in runtime.store.marks(domain, "erasures"):
        yield id, _parsed(domain, id, data)


def _parsed(domain: str, id: str, data: bytes) -> dict[str, Any]:
    try:
        receipt: dict[str, Any] = json.loads(data)
        if receipt["id"] == id and {"reason", "time", "versions", "finished"} <= receipt.keys():
            return receipt
        fault = "it is not in its form"
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        fault = str(exc)
    message = f"the receipt of {id} in {domain} cannot be read: {fault}"
    raise CorruptionError(message, hint="restore it from a backup")


def _label(receipt: Mapping[str, Any]) -> Any:
    from amem_core.domain.labels import Label

    return Label.parse(receipt.get("label", "restricted"))


def _checked(domain: str, receipt: dict[str, Any], erasures: Iterable[Event]) -> Receipt:
    problem, event = _problem(receipt, erasures)
    return Receipt(
        id=receipt["id"],
        domain=domain,
        reason=receipt["reason"],
        by=receipt.get("by", ""),
        time=receipt["time"],
        finished=bool(receipt["finished"]),
        index_clean=bool(receipt.get("index_clean", receipt["finished"])),
        versions=tuple(dict(item) for item in receipt["versions"]),
        values=tuple(receipt.get("values", ())),
        flagged=tuple(receipt.get("flagged", ())),
        swept=tuple(receipt.get("swept", ())),
        left=tuple(receipt.get("left", ())),
        out_of_reach=tuple(receipt.get("out_of_reach", ())),
        origin=receipt.get("origin"),
        lifted=receipt.get("lifted"),
        core=core_digest(receipt),
        seq=event.seq if event else None,
        chain=event.chain if event else None,
        problem=problem,
    )


def _problem(receipt: Mapping[str, Any], erasures: Iterable[Event]) -> tuple[str, Event | None]:
    """Return what does not agree between receipt and log, and the event of the erasure."""
    if receipt.get("origin"):
        return "", None
    own = (event for event in erasures if event.subject == receipt["id"] and event.seq > receipt.get("head", 0))
    event = next(own, None)
    if event is None:
        return ("the log has no event of this erasure" if receipt["finished"] else ""), None
    if event.data.get("receipt") != core_digest(receipt):
        return f"event {event.seq} of the log is of another receipt than this", event
    stated = receipt.get("event") or {}
    if stated and (stated.get("seq"), stated.get("chain")) != (event.seq, event.chain):
        return f"the receipt names event {stated.get('seq')}, and the log has it as {event.seq}", event
    return "", event
