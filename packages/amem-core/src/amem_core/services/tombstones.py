"""Values that may not come back: the gate that every write passes, and the marks that it asks.

An entry that was rejected says so itself (its field ``rejected``), and a receipt names the values that
went with an erasure. The marks of kind ``tombstones`` are a projection of both by the value's key, so
that a write asks for one or two keys and not for every rejection that there ever was.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from amem_core.domain.labels import Label, Status
from amem_core.domain.values import value_keys
from amem_core.errors import ConflictError, CorruptionError, FormatError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from amem_core.domain.entries import Entry
    from amem_core.runtime import Runtime
    from amem_core.session import Session

FORMAT = "durable-memory/tombstone/0"
KIND: Final = "tombstones"
_HIDDEN = "the owner knows the reason, and may lift that"
_ITEM = frozenset({"id", "label", "cause", "reason", "by", "when", "lifted"})


def keys_of(entry: Entry) -> tuple[str, ...]:
    """Return the keys of the value that an entry states."""
    return value_keys(entry.title, entry.summary, entry.body)


def rejection(entry: Entry) -> Mapping[str, Any] | None:
    """Return the item by which an entry is rejected now, None when it is not, or not any more."""
    last = entry.rejected[-1] if entry.rejected else None
    return None if last is None or last.get("lifted") else last


def refuse_rejected(
    runtime: Runtime,
    domain: str,
    entries: Iterable[Entry],
    *,
    apart_from: Container[str] = frozenset(),
    teller: Session | None = None,
) -> None:
    """Refuse entries that state a value which was rejected or erased, or that are derived from one that was rejected.

    An entry that is itself rejected states nothing any more, so that only an erasure refuses it. What
    was closed by the ids ``apart_from`` does not count. ``teller`` is the session that is told: of what
    is above its ceiling it hears that the value is refused, and no more.

    Raises:
        ConflictError: the message says why the value was refused and how that is lifted.
    """
    stating = list(entries)
    keys = [(key, entry) for entry in stating for key in keys_of(entry)]
    closed = active(runtime, domain, [key for key, _ in keys], apart_from=apart_from)
    for key, entry in keys:
        item = closed.get(key)
        if item is not None and (item["cause"] == "erased" or rejection(entry) is None):
            raise refused(domain, entry.title, item, teller)
    for entry in stating:
        for id in entry.derived_from:
            if id not in apart_from:
                _refuse_derived(runtime, domain, entry, id, teller)


def active(
    runtime: Runtime, domain: str, keys: list[str], *, apart_from: Container[str] = frozenset()
) -> dict[str, dict[str, Any]]:
    """Return, of the tombstones of these keys, the first item of each that nobody has lifted, an erasure's before all.

    Those of the ids ``apart_from`` are left out.
    """
    found: dict[str, dict[str, Any]] = {}
    for key, data in runtime.store.marks_of(domain, KIND, keys).items():
        items = [
            item for item in parsed(domain, key, data)["items"] if not item["lifted"] and item["id"] not in apart_from
        ]
        if items:
            found[key] = next((item for item in items if item["cause"] == "erased"), items[0])
    return found


def parsed(domain: str, key: str, data: bytes) -> dict[str, Any]:
    """Return what a tombstone says: its value's key and an item for each entry that closed it.

    Raises:
        CorruptionError: it cannot be read. It refuses its value all the same.
    """
    mark: dict[str, Any] = {}
    try:
        mark = json.loads(data)
        fault = _fault(key, mark)
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        fault = f"it is not in its form: {exc}"
    if fault:
        message = f"the tombstone {key} in {domain} cannot be read: {fault}"
        raise CorruptionError(message, hint="amem fsck --repair makes it again from the record")
    return mark


def _fault(key: str, mark: Mapping[str, Any]) -> str:
    if mark["format"] != FORMAT or mark["value"] != key:
        return f"it has the format {mark['format']!r} and is of {mark['value']!r}"
    for item in mark["items"]:
        if _ITEM - item.keys():
            return f"an item lacks one of {', '.join(sorted(_ITEM))}"
        if item["label"] not in Label.__members__ or item["cause"] not in ("rejected", "erased"):
            return f"an item is {item['label']!r} or {item['cause']!r}"
    return ""


def follow(runtime: Runtime, domain: str, entry: Entry) -> None:
    """Make the tombstones say what an entry's rejections, or the receipt of its erasure, say. It may be done again."""
    if entry.status is Status.erased:
        data = runtime.store.marks_of(domain, "erasures", [entry.id]).get(entry.id)
        if data is not None:
            project_erased(runtime, domain, json.loads(data))
    else:
        project(runtime, domain, entry)


def project(runtime: Runtime, domain: str, entry: Entry) -> None:
    """Make the tombstones say what an entry's ``rejected`` says last. Doing it again changes nothing.

    A lifting takes the place of the rejection; where none stands, as for a text that was written after
    it, there is nothing to lift.
    """
    if not entry.rejected:
        return
    last, keys = entry.rejected[-1], keys_of(entry)
    item = {
        "id": entry.id,
        "label": str(entry.classification),
        "cause": "rejected",
        "reason": str(last.get("reason", "")),
        "by": str(last.get("by", "")),
        "when": str(last.get("when", "")),
        "lifted": last.get("lifted") or None,
    }
    if item["lifted"]:
        before = runtime.store.marks_of(domain, KIND, keys)
        keys = tuple(key for key in keys if any(old["id"] == entry.id for old in _items(domain, key, before.get(key))))
    add(runtime, domain, keys, item)


def open_of(runtime: Runtime, domain: str, id: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield key and item of every value that ``id`` closed and nobody has lifted. Reads all tombstones of the domain."""
    for key, data in runtime.store.marks(domain, KIND):
        for item in parsed(domain, key, data)["items"]:
            if item["id"] == id and not item["lifted"]:
                yield key, item


def earlier(runtime: Runtime, domain: str, entry: Entry) -> Iterator[Entry]:
    """Yield the versions before this one that can be read, the first one first."""
    from amem_core.format.entry import parse

    for number in runtime.store.earlier_versions(domain, entry.id):
        try:
            version = parse(
                runtime.store.read(domain, entry.id, number),
                domain=domain,
                id=entry.id,
                fallback_time=entry.created,
                fallback_label=entry.classification,
            )
        except (FormatError, NotFoundError):
            continue
        yield version


def project_erased(runtime: Runtime, domain: str, receipt: Mapping[str, Any]) -> None:
    """Make the tombstones say what a receipt says of its values. Doing it again changes nothing."""
    item = {
        "id": receipt["id"],
        "label": receipt.get("label", "restricted"),
        "cause": "erased",
        "reason": receipt["reason"],
        "by": receipt["by"],
        "when": receipt["time"],
        "lifted": receipt.get("lifted"),
    }
    add(runtime, domain, receipt.get("values", ()), item)


def close_erased(runtime: Runtime, domain: str, receipt: Mapping[str, Any]) -> None:
    """Do what ``project_erased`` does, for a receipt from elsewhere only where nothing is said of its entry yet."""
    if not receipt.get("origin"):
        project_erased(runtime, domain, receipt)
        return
    keys = list(receipt.get("values", ()))
    before = runtime.store.marks_of(domain, KIND, keys)
    silent = [key for key in keys if not any(i["id"] == receipt["id"] for i in _items(domain, key, before.get(key)))]
    project_erased(runtime, domain, {**receipt, "values": silent})


def add(runtime: Runtime, domain: str, keys: Sequence[str], item: Mapping[str, Any]) -> None:
    """Put ``item`` into the tombstones of these keys, in place of what the same entry said there before.

    An entry's erasure takes the place of its rejection, and no rejection that of an erasure.
    """
    before = runtime.store.marks_of(domain, KIND, keys)
    for key in keys:
        items = _items(domain, key, before.get(key))
        kept = [old for old in items if old["id"] != item["id"]]
        own = next((old for old in items if old["id"] == item["id"]), None)
        if own is not None and own["cause"] == "erased" and item["cause"] != "erased":
            continue
        merged = sorted([*kept, dict(item)], key=lambda each: str(each["id"]))
        mark = {"format": FORMAT, "value": key, "domain": domain, "items": merged}
        data = json.dumps(mark, indent=2, ensure_ascii=False, default=str).encode() + b"\n"
        if data != before.get(key):
            runtime.store.save_mark(domain, KIND, key, data)


def _items(domain: str, key: str, data: bytes | None) -> list[dict[str, Any]]:
    """Return the items of a tombstone; one that cannot be read is made anew from the record, item by item."""
    if data is None:
        return []
    try:
        items: list[dict[str, Any]] = parsed(domain, key, data)["items"]
    except CorruptionError:
        return []
    return items


def refused(domain: str, title: str, item: Mapping[str, Any], teller: Session | None) -> ConflictError:
    """Return the error that refuses the value which an item of a tombstone closes."""
    said = f"{title!r} {told(domain, item, teller)}"
    if not _may_tell(domain, item["label"], teller):
        return ConflictError(said, hint=_HIDDEN)
    return ConflictError(
        said, hint=f"if it is to be stated again, the owner lifts that: amem lift {item['id']} --reason …"
    )


def told(domain: str, item: Mapping[str, Any], teller: Session | None) -> str:
    """Return what a text does that states a closed value; a session that may hear the reason takes on its label."""
    if not _may_tell(domain, item["label"], teller):
        return f"states what was {item['cause']} under a label above this session's ceiling"
    if teller is not None:
        teller.served([Label.parse(item["label"])])
    if item["cause"] == "erased":
        return f"states what was erased as {item['id']} ({item['reason']}), and does not come back"
    return f"states what was rejected as {item['id']}: {item['reason']}"


def _may_tell(domain: str, label: str, teller: Session | None) -> bool:
    return teller is None or teller.readable.allows(domain, Label.parse(label))


def _refuse_derived(runtime: Runtime, domain: str, entry: Entry, id: str, teller: Session | None) -> None:
    from amem_core.services.committing import load

    for name in (domain, *(other for other in runtime.store.domains() if other != domain)):
        try:
            origin = load(runtime, name, id).entry
        except NotFoundError:
            continue
        except FormatError:
            return
        item = rejection(origin)
        if item is None:
            return
        if not _may_tell(name, str(origin.classification), teller):
            message = f"{entry.title!r} is derived from {id}, which was rejected"
            raise ConflictError(message, hint=_HIDDEN)
        if teller is not None:
            teller.served([origin.classification])
        message = f"{entry.title!r} is derived from {id}, which was rejected: {item.get('reason', '')}"
        raise ConflictError(message, hint=f"derive it from what holds, or: amem lift {id} --reason …")
