"""Marks that travel in bundles: between their form in the record and their lines in a bundle.

What comes in only ever adds: nothing here is erased, opened or rejected less by what was decided
elsewhere, and what was lifted here stays lifted unless it was rejected anew after that.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from amem_core.domain.events import NewEvent
from amem_core.domain.labels import Label, Status, Tier
from amem_core.domain.results import Lifted
from amem_core.errors import CorruptionError, InvalidError, NotFoundError
from amem_core.services import committing, tombstones
from amem_core.services.erase import receipts
from amem_core.services.reach import holds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from amem_core.domain.entries import Entry
    from amem_core.runtime import Runtime
    from amem_core.services.committing import Current
    from amem_core.session import Session

LIFTED = "tombstone.lifted"
RECEIPT = "durable-memory/receipt/0"
PROMOTION = "durable-memory/promotion/0"
_OUT_OF_REACH = ("what else was made of it where it was erased",)


# -- leaving ------------------------------------------------------------------------------------------


def leaving_receipts(session: Session, domain: str) -> Iterator[dict[str, Any]]:
    """Yield what travels of a domain's receipts, by id: digests and values' keys, and no text."""
    for id, receipt in sorted(receipts(session, domain).items()):
        yield {
            "id": id,
            "label": _label(receipt),
            "reason": receipt["reason"],
            "by": _line(receipt["by"]),
            "time": receipt["time"],
            "versions": [{"version": each["version"], "digest": each["digest"]} for each in receipt["versions"]],
            "values": list(receipt.get("values", ())),
            "lifted": _lifted(receipt.get("lifted")),
        }


def leaving_tombstones(session: Session, domain: str) -> Iterator[dict[str, Any]]:
    """Yield what travels of a domain's tombstones: one for each value and each entry that closed it, in that order."""
    for key, data in session.runtime.store.marks(domain, tombstones.KIND):
        items = tombstones.parsed(domain, key, data)["items"]
        for item in sorted(items, key=lambda each: str(each["id"])):
            yield {
                "value": key,
                "id": item["id"],
                "label": _label(item),
                "cause": item["cause"],
                "reason": _line(item["reason"]),
                "by": _line(item["by"]),
                "when": _line(item["when"]),
                "lifted": _lifted(item["lifted"]),
            }


class LeavingPromotions:
    """What travels of the promotions of a domain's entries, which are asked for by id in ascending order."""

    def __init__(self, runtime: Runtime, domain: str) -> None:
        self._domain = domain
        self._marks = runtime.store.marks(domain, "promotions")
        self._next = next(self._marks, None)

    def of(self, entry: Entry, digest: str) -> dict[str, Any] | None:
        """Return the promotion of an entry as it stands, None when it has none, here or from elsewhere."""
        while self._next is not None and self._next[0] < entry.id:
            self._next = next(self._marks, None)
        records: list[Any] = []
        if self._next is not None and self._next[0] == entry.id:
            records += promotion_records(self._domain, *self._next)
        own = own_record(self._domain, entry, digest)
        if own is not None:
            records.append(own)
        return {"id": entry.id, "label": str(entry.classification), "records": records} if records else None


def own_record(domain: str, entry: Entry, digest: str) -> dict[str, Any] | None:
    """Return what an entry says that it was promoted to in ``domain``, None when it says nothing."""
    if entry.trust_tier is Tier.raw and not entry.verified:
        return None
    return {
        "domain": domain,
        "version": entry.version,
        "digest": digest,
        "tier": str(entry.trust_tier),
        "verified": [dict(item) for item in entry.verified],
    }


def promotion_records(domain: str, id: str, data: bytes) -> list[Any]:
    """Return the records of a promotion that came with an entry.

    Raises:
        CorruptionError: its mark cannot be read.
    """
    try:
        records = json.loads(data)["records"]
        return list(records)
    except (ValueError, KeyError, TypeError) as exc:
        message = f"the promotion of {id} in {domain} cannot be read: {exc}"
        raise CorruptionError(message, hint="restore it from a backup") from exc


# -- arriving -----------------------------------------------------------------------------------------


def receive_receipt(session: Session, into: str, mark: Mapping[str, Any], *, origin: str, save: bool) -> list[str]:
    """Honour the receipt of an erasure that was done elsewhere; return what the owner should be told.

    ``save`` is False to look only. What is here under that id is not erased by it.
    """
    runtime, id, reason = session.runtime, mark["id"], mark["reason"]
    own = runtime.store.marks_of(into, "erasures", [id])
    notices = [
        f"{id} was erased where the bundle comes from ({reason}) and stays here, in {name}:"
        f" to erase it as well, amem erase {id} --reason {reason}"
        for name in sorted({into, *runtime.store.domains()})
        if holds(runtime, name, id) and not (name == into and own)
    ]
    if save and not own and not holds(runtime, into, id):
        runtime.store.save_mark(into, "erasures", id, _receipt(mark, into, origin))
    item = {
        "id": id,
        "label": mark["label"],
        "cause": "erased",
        "reason": reason,
        "by": mark["by"],
        "when": mark["time"],
        "lifted": mark["lifted"],
    }
    for key in mark["values"]:
        notices += receive_tombstone(session, into, {"value": key, **item}, save=save)
    return notices


def receive_tombstone(session: Session, into: str, mark: Mapping[str, Any], *, save: bool) -> list[str]:
    """Honour what closed a value elsewhere; return what the owner should be told. ``save`` is False to look only."""
    key = mark["value"]
    item = {name: mark[name] for name in ("id", "label", "cause", "reason", "by", "when", "lifted")}
    own = _item_of(session.runtime, into, key, item["id"])
    if own is None or _stands_over(session.runtime, into, item, own):
        if save:
            tombstones.add(session.runtime, into, [key], item)
        return []
    if own["lifted"] and not item["lifted"]:
        return [f"{item['id']} is {item['cause']} where the bundle comes from; it was lifted here and stays so"]
    if item["lifted"] and not own["lifted"]:
        hint = f"to lift it here as well, amem lift {item['id']} --reason …"
        return [f"{item['id']} was lifted where the bundle comes from and stays {own['cause']} here: {hint}"]
    return []


def promotion_mark(into: str, mark: Mapping[str, Any]) -> bytes:
    """Return the bytes under which the promotion of an arriving entry is kept; an empty one for no records."""
    kept = {"format": PROMOTION, "id": mark["id"], "domain": into, "records": list(mark["records"])}
    return json.dumps(kept, indent=2, ensure_ascii=False).encode() + b"\n"


# -- lifting ------------------------------------------------------------------------------------------


def lift(session: Session, id: str, item: Mapping[str, Any]) -> Lifted | None:
    """Lift the tombstones that ``id`` closed elsewhere; ``item`` says when, by whom and why. None when there are none."""
    for domain in sorted(session.readable.domains):
        closed = next((old for _, old in tombstones.open_of(session.runtime, domain, id)), None)
        if closed is None or not session.readable.allows(domain, Label.parse(closed["label"])):
            continue
        facts = {"id": id, "domain": domain, "author": closed["by"], "label": closed["label"]}
        session.decide("lift", {**facts, "tier": str(Tier.raw), "status": str(Status.demoted)})
        return _lift(session, domain, id, item)
    return None


def _lift(session: Session, domain: str, id: str, item: Mapping[str, Any]) -> Lifted | None:
    runtime = session.runtime
    with runtime.log.writer(domain) as writer:
        committing.settle(runtime, domain, writer)
        current = _current(runtime, domain, id)
        closed = dict(tombstones.open_of(runtime, domain, id))
        if not closed or (current is not None and tombstones.rejection(current.entry) is not None):
            # What an entry here says of itself is lifted with the entry.
            return None
        writer.append([NewEvent(LIFTED, id, session.author, runtime.clock.now(), {"values": sorted(closed)})])
        for key, old in closed.items():
            tombstones.add(runtime, domain, [key], {**old, "lifted": dict(item)})
        receipt = receipts(session, domain).get(id)
        if receipt is not None and not receipt.get("lifted"):
            data = json.dumps({**receipt, "lifted": dict(item)}, indent=2, ensure_ascii=False).encode() + b"\n"
            runtime.store.save_mark(domain, "erasures", id, data)
        runtime.index.apply(domain, [], through=writer.head)
    return Lifted(
        id=id,
        version=current.entry.version if current else 0,
        domain=domain,
        digest=current.digest if current else "",
        status=current.entry.status if current else Status.demoted,
        values=tuple(sorted(closed)),
        notices=(f"what {id} stated was closed elsewhere and came with a bundle; it may be written again",),
    )


def _current(runtime: Runtime, domain: str, id: str) -> Current | None:
    try:
        return committing.load(runtime, domain, id)
    except NotFoundError:
        return None


# -- helpers ------------------------------------------------------------------------------------------


def _item_of(runtime: Runtime, domain: str, key: str, id: str) -> dict[str, Any] | None:
    data = runtime.store.marks_of(domain, tombstones.KIND, [key]).get(key)
    if data is None:
        return None
    return next((item for item in tombstones.parsed(domain, key, data)["items"] if item["id"] == id), None)


def _stands_over(runtime: Runtime, domain: str, item: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Return whether what was decided elsewhere takes the place of what stands here for the same entry and value."""
    if item["lifted"] or (own["cause"] == "erased" and item["cause"] != "erased"):
        return False
    if own["lifted"]:
        return str(item["when"]) > str(own["lifted"].get("when", ""))
    # Of an entry that is here, its own word is what counts, and what a lifting is about.
    return own["cause"] != item["cause"] and not holds(runtime, domain, item["id"])


def _receipt(mark: Mapping[str, Any], into: str, origin: str) -> bytes:
    receipt = {
        "format": RECEIPT,
        "id": mark["id"],
        "domain": into,
        "origin": origin,
        "label": mark["label"],
        "reason": mark["reason"],
        "by": mark["by"],
        "time": mark["time"],
        "head": 0,
        "versions": list(mark["versions"]),
        "values": list(mark["values"]),
        "lifted": mark["lifted"],
        "out_of_reach": list(_OUT_OF_REACH),
        "finished": True,
    }
    return json.dumps(receipt, indent=2, ensure_ascii=False).encode() + b"\n"


def _label(mark: Mapping[str, Any]) -> str:
    """Return a mark's label; one that says none, or an unknown one, is restricted."""
    try:
        return str(Label.parse(mark.get("label")))
    except InvalidError:
        return str(Label.restricted)


def _line(value: object) -> str:
    """Return a value as the one line that travels: an entry edited by hand may hold anything there."""
    from amem_core.format.checks import MAX_LINE, one_line

    return one_line(str(value)).strip()[:MAX_LINE].strip()


def _lifted(item: object) -> dict[str, str] | None:
    if not item:
        return None
    said = cast("Mapping[str, Any]", item) if isinstance(item, dict) else {"reason": item}
    return {name: _line(said.get(name, "")) for name in ("when", "by", "reason")}
