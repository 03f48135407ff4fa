"""Writing entries: from drafts to acknowledged versions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from amem_core.domain.entries import Draft, Entry
from amem_core.domain.labels import Label, Status, Tier
from amem_core.domain.names import ENTRY_PREFIX, check_entry_id, check_type
from amem_core.domain.queries import Conditions
from amem_core.domain.results import Written
from amem_core.domain.spans import end_of, first_moment
from amem_core.errors import ConflictError, FormatError, InvalidError, NotFoundError
from amem_core.services import committing
from amem_core.services.committing import WRITTEN, Change, Current
from amem_core.services.reach import held
from amem_core.services.tombstones import refuse_rejected, rejection

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from amem_core.session import Session

SUPERSEDED = "entry.superseded"
MOST_DRAFTS = 1000
# Fields that a draft and an entry share under the same name and with the same meaning.
_SHARED = (
    "valid_from",
    "valid_until",
    "source",
    "confidence",
    "review_by",
    "derived_from",
    "tags",
    "aliases",
    "always_load",
    "lifecycle",
    "extra",
)


@dataclass
class _Plan:
    """What a group of drafts comes to, before anything is written."""

    changes: list[Change] = field(default_factory=list)
    answers: list[Written] = field(default_factory=list)
    # Positions in ``answers`` of the changes that are waiting for their digest.
    waiting: dict[int, int] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)


def write_many(session: Session, drafts: Sequence[Draft]) -> list[Written]:
    """Write drafts of one domain together; see ``Session.write_many``."""
    if not drafts:
        return []
    if len(drafts) > MOST_DRAFTS:
        message = f"{len(drafts)} drafts are too many for one write"
        raise InvalidError(message, hint=f"write at most {MOST_DRAFTS} at a time")
    domain = drafts[0].domain
    if any(draft.domain != domain for draft in drafts):
        message = "the drafts are of several domains"
        raise InvalidError(message, hint="write each domain's drafts by themselves")
    if any(draft.type == "task" for draft in drafts):
        message = "a task is not written as an entry"
        raise InvalidError(message, hint="file it with create_task (amem task create)")
    held(session, domain)
    cleaned = [clean_draft(draft) for draft in drafts]
    runtime = session.runtime
    with runtime.log.writer(domain) as writer:
        committing.settle(runtime, domain, writer)
        plan = _Plan()
        for draft in cleaned:
            _plan(session, draft, plan)
        if not plan.changes:
            return plan.answers
        digests, notices = committing.commit(
            runtime, domain, writer, plan.changes, actor=session.author, teller=session
        )
    for position, answer in plan.waiting.items():
        written = plan.answers[answer]
        plan.answers[answer] = replace(written, digest=digests[position], notices=(*written.notices, *notices))
    return plan.answers


def clean_draft(draft: Draft) -> Draft:
    """Return the draft with its text made fit for the record.

    Raises:
        InvalidError: a field breaks a rule.
    """
    from amem_core.format.entry import clean_text

    check_type(draft.type)
    cleaned: dict[str, Any] = {
        "title": clean_text(draft.title, "title"),
        "summary": clean_text(draft.summary, "summary"),
        "body": clean_text(draft.body, "body"),
        "id": None if draft.id is None else check_entry_id(draft.id),
        "supersedes": tuple(map(check_entry_id, draft.supersedes)),
        "derived_from": tuple(map(check_entry_id, draft.derived_from)),
        "label": None if draft.label is None else Label.parse(draft.label),
        "source": tuple(draft.source),
        "tags": tuple(draft.tags),
        "aliases": tuple(draft.aliases),
    }
    # Most drafts are clean as they come, and a copy of all their fields costs as much as the rest.
    changed = {name: value for name, value in cleaned.items() if not _is_same(getattr(draft, name), value)}
    return replace(draft, **changed) if changed else draft


def _is_same(given: object, cleaned: object) -> bool:
    """Return whether the two are equal and of one type: a kind of text that renders as something else is not kept."""
    return type(given) is type(cleaned) and given == cleaned


def decide_write(session: Session, domain: str, type: str, label: Label | None, replaces: Current | None) -> Label:
    """Return the label that the policy gives to a write.

    Raises:
        DeniedError: the policy refuses the write.
    """
    facts: dict[str, Any] | None = None
    if replaces is not None:
        entry = replaces.entry
        facts = {
            "id": entry.id,
            "author": entry.author,
            "tier": str(entry.trust_tier),
            "label": str(entry.classification),
        }
    decision = session.decide(
        "write", {"domain": domain, "type": type, "label": None if label is None else str(label), "replaces": facts}
    )
    return Label.parse(decision.obligations["label"])


def new_entry(session: Session, draft: Draft, label: Label, now: datetime) -> Entry:
    """Return the first version of an entry made from a cleaned draft.

    Raises:
        InvalidError: the draft breaks a rule of the format.
    """
    from amem_core.format.entry import check_entry

    entry = Entry(
        id=session.runtime.ids.new(ENTRY_PREFIX, now),
        version=1,
        type=draft.type,
        domain=draft.domain,
        title=draft.title,
        summary=draft.summary,
        body=draft.body,
        author=session.author,
        created=now,
        updated=now,
        classification=label,
        supersedes=draft.supersedes,
        **{name: getattr(draft, name) for name in _SHARED},
    )
    check_entry(entry)
    return entry


def _plan(session: Session, draft: Draft, plan: _Plan) -> None:
    if draft.id is not None:
        _plan_version(session, draft, plan)
        return
    same = _same_text(session, draft)
    if same is not None and not draft.supersedes:
        # It may have been rejected as another entry, and is not written a second time by saying that it is there.
        refuse_rejected(session.runtime, draft.domain, [same.entry], teller=session)
        plan.answers.append(_unchanged(same))
        return
    label = decide_write(session, draft.domain, draft.type, draft.label, None)
    now = session.runtime.clock.now()
    entry = new_entry(session, draft, label, now)
    _check_origins(session, draft.derived_from)
    olds = [_to_supersede(session, draft.domain, id, plan) for id in draft.supersedes]
    plan.waiting[len(plan.changes)] = len(plan.answers)
    plan.changes.append(Change(entry, WRITTEN, None, checked=True))
    for old in olds:
        newer = committing.next_version(
            old, now, status=Status.superseded, superseded_by=entry.id, valid_until=ending(old.entry, entry)
        )
        plan.changes.append(Change(newer, SUPERSEDED, old.digest))
    plan.answers.append(
        Written(
            id=entry.id,
            version=1,
            domain=entry.domain,
            label=label,
            digest="",
            superseded=draft.supersedes,
            notices=_raised(draft.label, label),
        )
    )


def ending(old: Entry, new: Entry) -> date | datetime | None:
    """Return until when the superseded entry was true: where its successor says from when it holds, until then.

    A successor that says nothing corrects what never held, and leaves the old span as it was.
    """
    if new.valid_from is None:
        return old.valid_until
    begins = first_moment(new.valid_from)
    if old.valid_until is not None and end_of(old.valid_until) <= begins:
        return old.valid_until
    if old.valid_from is not None and first_moment(old.valid_from) > begins:
        return old.valid_until
    return begins


def _plan_version(session: Session, draft: Draft, plan: _Plan) -> None:
    from amem_core.format.entry import check_entry

    current = _own(session, draft.domain, draft.id or "", plan)
    if draft.supersedes:
        message = f"a new version of {draft.id} cannot supersede other entries"
        raise InvalidError(message, hint="write a new entry that supersedes them all")
    if draft.type != current.entry.type:
        message = f"{draft.id} is of type {current.entry.type}, not {draft.type}"
        raise InvalidError(message, hint="the type of an entry stays; write a new entry that supersedes it")
    label = decide_write(session, draft.domain, draft.type, draft.label, current)
    fields: dict[str, Any] = {name: getattr(draft, name) for name in _SHARED}
    fields.update(title=draft.title, summary=draft.summary, body=draft.body, classification=label)
    if all(getattr(current.entry, name) == value for name, value in fields.items()):
        plan.answers.append(_unchanged(current))
        return
    # A changed text has been verified by nobody.
    fields.update(author=session.author, trust_tier=Tier.raw, verified=())
    entry = committing.next_version(current, session.runtime.clock.now(), **fields)
    check_entry(entry)
    origins = [id for id in draft.derived_from if id not in current.entry.derived_from]
    _check_origins(session, origins)
    _check_circle(session, entry, origins, plan)
    plan.waiting[len(plan.changes)] = len(plan.answers)
    plan.changes.append(Change(entry, WRITTEN, current.digest, checked=True))
    plan.answers.append(
        Written(
            id=entry.id,
            version=entry.version,
            domain=entry.domain,
            label=label,
            digest="",
            notices=_raised(draft.label, label),
        )
    )


def _check_origins(session: Session, ids: Sequence[str]) -> None:
    """Refuse an origin that leads nowhere: a reader could not follow it, and a rejection could not reach what it made.

    What the session may not read is as if it were not there.
    """
    for id in ids:
        if not any(_is_readable(session, domain, id) for domain in sorted(session.readable.domains)):
            message = f"it is derived from {id}, and there is no such entry"
            raise NotFoundError(message, hint="search for the entry and copy its id, or leave derived_from out")


def _is_readable(session: Session, domain: str, id: str) -> bool:
    try:
        label = committing.load(session.runtime, domain, id).entry.classification
    except NotFoundError:
        return False
    except FormatError:
        # It is there, and nothing of it can be told.
        label = Label.restricted
    return session.readable.allows(domain, label)


def _check_circle(session: Session, entry: Entry, origins: Sequence[str], plan: _Plan) -> None:
    """Refuse a new origin that is itself derived from the entry, so that neither would rest on anything else."""
    planned = {change.entry.id: change.entry for change in plan.changes}
    waiting, seen = list(origins), set(origins)
    for id in waiting:
        if id == entry.id:
            message = f"{id} would be derived from itself"
            raise InvalidError(
                message, hint="leave out of derived_from what is derived from the entry", field="derived_from"
            )
        above = planned.get(id) or _origin(session, id)
        following = [] if above is None else [each for each in above.derived_from if each not in seen]
        seen.update(following)
        waiting += following


def _origin(session: Session, id: str) -> Entry | None:
    for domain in sorted(session.readable.domains):
        with suppress(NotFoundError, FormatError):
            return committing.load(session.runtime, domain, id).entry
    return None


def _own(session: Session, domain: str, id: str, plan: _Plan) -> Current:
    """Return the current version of an active entry of ``domain`` that this group has not touched yet."""
    if id in plan.touched:
        message = f"{id} is written twice in one group"
        raise InvalidError(message, hint="write it once, or in two calls")
    plan.touched.add(id)
    missing = f"there is no entry {id} in {domain}"
    try:
        current = committing.load(session.runtime, domain, id)
    except NotFoundError as exc:
        raise NotFoundError(missing, hint="an entry changes inside its own domain; search for its id") from exc
    if not session.readable.allows(domain, current.entry.classification):
        raise NotFoundError(missing, hint="an entry changes inside its own domain; search for its id")
    if current.entry.status is not Status.active:
        raise _not_active(session, domain, current.entry)
    return current


def _not_active(session: Session, domain: str, entry: Entry) -> ConflictError:
    from amem_core.services.chains import head_of

    head = head_of(session.runtime, domain, entry)
    if rejection(entry) is not None:
        hint = f"write what holds as a new entry; if it is to be stated again, amem lift {entry.id} --reason …"
        return ConflictError(f"{entry.id} was rejected", hint=hint)
    if head is None:
        return ConflictError(f"{entry.id} is {entry.status}", hint="write a new entry")
    message = f"{entry.id} is {entry.status} by {entry.superseded_by}"
    if head.status is not Status.active:
        hint = f"write a new entry: its chain ends in {head.id}, which is {head.status}"
        return ConflictError(message, hint=hint, head=head.id)
    return ConflictError(message, hint=f"write to {head.id}, which holds now, or write a new entry", head=head.id)


def _to_supersede(session: Session, domain: str, id: str, plan: _Plan) -> Current:
    current = _own(session, domain, id, plan)
    decide_write(session, domain, current.entry.type, None, current)
    return current


def _same_text(session: Session, draft: Draft) -> Current | None:
    """Return an active entry that says the same already, when the session may read one."""
    from amem_core.domain.fingerprints import fingerprint

    conditions = Conditions(
        fingerprint=fingerprint(type=draft.type, title=draft.title, summary=draft.summary, body=draft.body)
    )
    found = session.runtime.index.select(session.readable.narrowed(draft.domain), conditions, order="oldest", limit=1)
    if not found:
        return None
    current = committing.load(session.runtime, draft.domain, found[0].id)
    return current if current.entry.status is Status.active else None


def _unchanged(current: Current) -> Written:
    entry = current.entry
    return Written(
        id=entry.id,
        version=entry.version,
        domain=entry.domain,
        label=entry.classification,
        digest=current.digest,
        changed=False,
        notices=(f"the same text is there already as {entry.id}, version {entry.version}; nothing was written",),
    )


def _raised(asked: Label | None, given: Label) -> tuple[str, ...]:
    if asked is None or asked == given:
        return ()
    return (f"written as {given}, not {asked}: the session has read {given} text, or the domain asks for it",)
