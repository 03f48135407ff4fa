"""Correction: a value that is rejected and stays so, the lifting of that, and verification."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from amem_core.domain.labels import Label, Status, Tier
from amem_core.domain.names import check_entry_id
from amem_core.domain.queries import Conditions, Query, ReadFilter
from amem_core.domain.results import Lifted, Rejected, Verified
from amem_core.domain.values import normalised
from amem_core.errors import AmemError, ConflictError, FormatError, InvalidError, NotFoundError
from amem_core.services import citing, committing, tombstones
from amem_core.services.committing import LIFTED, Change, Current
from amem_core.services.reach import locate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from amem_core.domain.entries import Entry
    from amem_core.ports.log import LogWriter
    from amem_core.session import Session

REJECTED = "entry.rejected"
VERIFIED = "entry.verified"
ORACLES = ("ci", "data", "human", "source")
# What an agent is called, by itself or before a colon.
_AGENTS = frozenset({"agent", "librarian", "session", "tap"})
# How many entries may state the same value for all of them to be found when one is rejected.
_MOST_ALIKE = 100
# So much of a text finds whatever else states it; asking for every word of a long one finds nothing more.
_ENOUGH_TO_FIND = 500


def reject(session: Session, id: str, *, reason: str) -> Rejected:
    """Reject the value that an entry states; see ``Session.reject``."""
    reason = _said(reason, "reason", "say why the value does not hold: whoever states it again is told")
    domain, seen = locate(session, id)
    session.decide("reject", _facts(seen.entry))
    runtime = session.runtime
    derivations = citing.Derivations(runtime, sorted({domain, *session.readable.domains}))
    with runtime.log.writer(domain) as writer:
        committing.settle(runtime, domain, writer)
        current = committing.load(runtime, domain, seen.entry.id)
        if _facts(current.entry) != _facts(seen.entry):
            # Somebody verified it, or raised its label, before this session became the writer.
            session.decide("reject", _facts(current.entry))
        _check_rejectable(current.entry)
        now = runtime.clock.now()
        item = _item(now, session.author, reason=reason, status=str(current.entry.status))
        # What was superseded is demoted too, or a question about the time when it held would be answered with it. Its
        # chain leads on.
        entry = committing.next_version(current, now, status=Status.demoted, rejected=(*current.entry.rejected, item))
        derivations.follow(domain)
        derived = derivations.of(entry.id)
        lower = {current.entry.id for current in derived.get(domain, ())}
        alike = [other for other in _alike(session, entry) if other.entry.id not in lower]
        flags = citing.flagged_changes([*derived.pop(domain, ()), *alike], now)
        changes = [Change(entry, REJECTED, current.digest), *flags]
        digests, notices = committing.commit(runtime, domain, writer, changes, actor=session.author)
    flagged = [change.entry for change in flags]
    for name, currents in derived.items():
        flagged += _flag_elsewhere(session, name, currents, notices)
    return Rejected(
        id=entry.id,
        version=entry.version,
        domain=domain,
        digest=digests[0],
        reason=reason,
        values=tombstones.keys_of(entry),
        flagged=tuple(one.id for one in flagged if _is_told(session, one)),
        notices=(*notices, *_also(session, flagged, alike)),
    )


def _is_told(session: Session, entry: Entry) -> bool:
    """Return whether the session may hear of an entry. What it may not read is due for review all the same."""
    return session.readable.allows(entry.domain, entry.classification)


def _also(session: Session, flagged: Sequence[Entry], alike: Sequence[Current]) -> Iterator[str]:
    """Yield what the ids of the flagged entries do not say of them."""
    for other in (current.entry for current in alike):
        if _is_told(session, other):
            yield f"{other.id} states the same and is still served: to reject it as well, amem reject {other.id} --reason …"
    hidden = sum(not _is_told(session, entry) for entry in flagged)
    if hidden:
        yield f"{hidden} more are due for review today, which this session may not read"


def _alike(session: Session, entry: Entry) -> list[Current]:
    """Return the other active entries of the domain that state the same value, whoever may read them."""
    runtime, keys = session.runtime, set(tombstones.keys_of(entry))
    text = (entry.body.strip() or f"{entry.title} {entry.summary}")[:_ENOUGH_TO_FIND]
    everything = ReadFilter({entry.domain: Label.restricted})
    found = []
    for hit in runtime.index.search(Query(text, everything, limit=_MOST_ALIKE)):
        try:
            other = committing.load(runtime, entry.domain, hit.id)
        except (NotFoundError, FormatError):
            continue
        served = other.entry.id != entry.id and other.entry.status is Status.active
        if served and keys & set(tombstones.keys_of(other.entry)):
            found.append(other)
    return found


def _flag_elsewhere(session: Session, domain: str, seen: Sequence[Current], notices: list[str]) -> list[Entry]:
    """Make what is derived in another domain due for review; what stands in the way of that is told, and undoes nothing."""
    runtime = session.runtime
    try:
        with runtime.log.writer(domain) as writer:
            committing.settle(runtime, domain, writer)
            currents = [committing.load(runtime, domain, current.entry.id) for current in seen]
            changes = citing.flagged_changes(currents, runtime.clock.now())
            if changes:
                committing.commit(runtime, domain, writer, changes, actor=session.author)
    except AmemError as exc:
        notices.append(f"what is derived from it in {domain} could not be made due for review: {exc}")
        return []
    return [change.entry for change in changes]


def lift(session: Session, id: str, *, reason: str) -> Lifted:
    """Lift a rejection or an erasure's hold on its values; see ``Session.lift``."""
    from amem_core.services import travelling

    reason = _said(reason, "reason", "say why the value may be stated again")
    id = check_entry_id(id)
    try:
        return _lift_here(session, id, reason)
    except (NotFoundError, ConflictError):
        # What came with a bundle may be closed in the name of an entry that is not here, or not rejected here.
        lifted = travelling.lift(session, id, _item(session.runtime.clock.now(), session.author, reason=reason))
        if lifted is None:
            raise
        return lifted


def _lift_here(session: Session, id: str, reason: str) -> Lifted:
    domain, seen = _of_the_record(session, id)
    session.decide("lift", _facts(seen.entry))
    runtime = session.runtime
    with runtime.log.writer(domain) as writer:
        committing.settle(runtime, domain, writer)
        current = committing.load(runtime, domain, id)
        if current.entry.status is Status.erased:
            return _lift_erased(session, current, reason, writer)
        item = tombstones.rejection(current.entry)
        if item is None:
            message = f"{id} is not rejected"
            raise ConflictError(message, hint="amem get shows an entry's rejections; only what is rejected is lifted")
        others = tombstones.active(runtime, domain, list(tombstones.keys_of(current.entry)), apart_from={id})
        erased = next((other for other in others.values() if other["cause"] == "erased"), None)
        if erased is not None:
            raise tombstones.refused(domain, current.entry.title, erased, session)
        now = runtime.clock.now()
        lifted = {**item, "lifted": _item(now, session.author, reason=reason)}
        entry = committing.next_version(
            current, now, status=_status_before(current.entry, item), rejected=(*current.entry.rejected[:-1], lifted)
        )
        changes = [Change(entry, LIFTED, current.digest)]
        # A hand may have changed the text since it was rejected: what it said then is refused, too.
        closed = dict(tombstones.open_of(runtime, domain, id))
        digests, notices = committing.commit(runtime, domain, writer, changes, actor=session.author)
        for key, old in closed.items():
            tombstones.add(runtime, domain, [key], {**old, "lifted": lifted["lifted"]})
    return Lifted(
        id=id,
        version=entry.version,
        domain=domain,
        digest=digests[0],
        status=entry.status,
        values=tuple(closed),
        notices=(
            *notices,
            *(
                f"its value stays refused, as it was rejected as {other} too"
                for other in sorted({str(each["id"]) for each in others.values()})
            ),
        ),
    )


def verify(session: Session, id: str, *, oracle: str, evidence: str, by: str) -> Verified:
    """Record that somebody has checked an entry against something outside; see ``Session.verify``."""
    if oracle not in ORACLES:
        message = f"{oracle!r} is no oracle that can verify"
        raise InvalidError(message, hint=f"one of: {', '.join(ORACLES)}; what a model thinks is none")
    evidence = _said(evidence, "evidence", "name what was seen: a run, a query and its answer, a page, a ruling")
    by = _verifier(by)
    domain, seen = locate(session, id)
    session.decide("verify", {**_facts(seen.entry), "oracle": oracle, "by": by})
    runtime = session.runtime
    with runtime.log.writer(domain) as writer:
        committing.settle(runtime, domain, writer)
        current = committing.load(runtime, domain, seen.entry.id)
        _check_verifiable(session, domain, current)
        _check_not_asserted_by(session, current, by)
        now = runtime.clock.now()
        item = _item(now, by, oracle=oracle, evidence=evidence)
        entry = committing.next_version(
            current, now, trust_tier=Tier.verified, verified=(*current.entry.verified, item)
        )
        changes = [Change(entry, VERIFIED, current.digest)]
        digests, notices = committing.commit(runtime, domain, writer, changes, actor=session.author)
    return Verified(
        id=entry.id,
        version=entry.version,
        domain=domain,
        digest=digests[0],
        oracle=oracle,
        by=by,
        verifications=len(entry.verified),
        notices=tuple(notices),
    )


def _facts(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "domain": entry.domain,
        "author": entry.author,
        "type": entry.type,
        "label": str(entry.classification),
        "tier": str(entry.trust_tier),
        "status": str(entry.status),
    }


def _said(text: str, field: str, hint: str) -> str:
    from amem_core.format.checks import clean_text

    cleaned = clean_text(text, field)
    if not normalised(cleaned):
        message = f"there is no {field}"
        raise InvalidError(message, hint=hint, field=field)
    return cleaned


def _item(now: datetime, by: str, **facts: str) -> dict[str, Any]:
    return {"when": now.isoformat(timespec="microseconds").replace("+00:00", "Z"), "by": by, **facts}


def _check_rejectable(entry: Entry) -> None:
    item = tombstones.rejection(entry)
    if item is not None:
        message = f"{entry.id} is rejected already: {item.get('reason', '')}"
        raise ConflictError(message, hint=f"to take that back: amem lift {entry.id} --reason …")
    if entry.status is Status.erased:
        message = f"{entry.id} is erased"
        raise ConflictError(message, hint="what was erased does not come back; its values are refused already")


def _status_before(entry: Entry, item: Mapping[str, Any]) -> Status:
    """Return the status that an entry had when it was rejected; one that was superseded meanwhile stays so."""
    if entry.superseded_by is not None:
        return Status.superseded
    try:
        before = Status(str(item.get("status", Status.active)))
    except ValueError:
        return Status.active
    return Status.active if before in {Status.erased, Status.demoted} else before


def _of_the_record(session: Session, id: str) -> tuple[str, Current]:
    """Return the domain and the current version of an entry, an erased one too, which nobody reads."""
    for domain in sorted(session.readable.domains):
        try:
            current = committing.load(session.runtime, domain, id)
        except NotFoundError:
            continue
        if session.readable.allows(domain, current.entry.classification):
            return domain, current
    message = f"there is no entry {id}"
    raise NotFoundError(message, hint="the refusal of a write names the id that was rejected")


def _lift_erased(session: Session, current: Current, reason: str, writer: LogWriter) -> Lifted:
    """Let the values of an erased entry be stated again. Its text does not come back."""
    from amem_core.domain.events import NewEvent
    from amem_core.services.erase import receipts

    runtime, entry = session.runtime, current.entry
    receipt = receipts(session, entry.domain).get(entry.id)
    if receipt is None or not receipt.get("values") or receipt.get("lifted"):
        message = f"nothing of {entry.id} is refused" if not receipt else f"what {entry.id} stated is not refused"
        raise ConflictError(message, hint="write it; amem receipt show names what an erasure holds back")
    now = runtime.clock.now()
    receipt["lifted"] = _item(now, session.author, reason=reason)
    data = json.dumps(receipt, indent=2, ensure_ascii=False).encode() + b"\n"
    runtime.store.save_mark(entry.domain, "erasures", entry.id, data)
    facts = {"version": entry.version, "digest": current.digest}
    writer.append([NewEvent(LIFTED, entry.id, session.author, now, facts)])
    tombstones.project_erased(runtime, entry.domain, receipt)
    runtime.index.apply(entry.domain, [], through=writer.head)
    return Lifted(
        id=entry.id,
        version=entry.version,
        domain=entry.domain,
        digest=current.digest,
        status=entry.status,
        values=tuple(receipt["values"]),
        notices=(f"{entry.id} stays erased; what it stated may be written again",),
    )


def _verifier(by: str) -> str:
    """Return the name of who verified.

    Raises:
        InvalidError: there is none, or it is an agent's: no agent verifies on its own authority.
    """
    by = _said(by, "by", "name the person, or the run, that stands behind it")
    if normalised(by).partition(":")[0].strip() in _AGENTS:
        message = f"{by} is an agent, and no agent verifies on its own authority"
        raise InvalidError(message, hint="name the person who checked it", field="by")
    return by


def _check_verifiable(session: Session, domain: str, current: Current) -> None:
    entry = current.entry
    if entry.status is not Status.active:
        message = f"{entry.id} is {entry.status}"
        raise ConflictError(message, hint="only what is active is verified")
    if current.by_hand:
        message = f"the file of {entry.id} was changed by hand, and who asserts what it says is not known yet"
        raise ConflictError(message, hint="take it in with amem reindex, look at it, and verify it then")
    # Of two entries that state one value, the one may be rejected and the other verified; nobody could tell what holds.
    tombstones.refuse_rejected(session.runtime, domain, [entry], teller=session)


def _check_not_asserted_by(session: Session, current: Current, by: str) -> None:
    """Refuse a verifier who wrote the text that is verified, in this entry or in one that says exactly the same."""
    asserted = {current.entry.author, *_authors_of_the_text(session, current.entry)}
    if any(_same_name(author, by) for author in asserted):
        message = f"{by} asserted {current.entry.id} and cannot verify it"
        raise InvalidError(message, hint="somebody else checks it, and is named", field="by")


def _authors_of_the_text(session: Session, entry: Entry) -> Iterator[str]:
    from amem_core.domain.fingerprints import fingerprint

    runtime, stated = session.runtime, set(tombstones.keys_of(entry))
    for earlier in tombstones.earlier(runtime, entry.domain, entry):
        if stated & set(tombstones.keys_of(earlier)):
            yield earlier.author
    same = fingerprint(type=entry.type, title=entry.title, summary=entry.summary, body=entry.body)
    everything = ReadFilter({entry.domain: Label.restricted})
    for hit in runtime.index.select(everything, Conditions(statuses=(), fingerprint=same), limit=_MOST_ALIKE):
        yield hit.author


def _same_name(author: str, by: str) -> bool:
    names = {normalised(author), normalised(author.partition(":")[2])}
    return normalised(by) in names - {""}
