"""Promises: filing, claiming, keeping, completing and giving back tasks.

A task's text is an entry of type ``task`` with the task's id; its state is the ledger's.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from amem_core.domain.entries import Draft, Entry
from amem_core.domain.labels import Label, Status
from amem_core.domain.names import check_entry_id
from amem_core.domain.results import TaskNode, TaskView
from amem_core.domain.task_events import FILED, event_of, fence_refused, file_task
from amem_core.domain.tasks import NewTask, Task, TaskStatus
from amem_core.errors import ConflictError, FormatError, InvalidError, NotFoundError
from amem_core.services import committing, relaying
from amem_core.services.committing import WRITTEN, Change
from amem_core.services.fencing import fence_entry
from amem_core.services.reach import held
from amem_core.services.tombstones import rejection
from amem_core.services.writing import clean_draft, decide_write, new_entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amem_core.session import Session

LOWEST_LEASE = timedelta(seconds=1)
HIGHEST_LEASE = timedelta(days=7)
MOST_CLAIMS = 100
MOST_LISTED = 1000
HIGHEST_PRIORITY = 1000
LONGEST_ORIGIN = 500
_ORIGIN = re.compile(r"(?:task|continues):mem-[a-z0-9-]+|librarian:[\w.-]+|github:[\w.-]+/[\w.-]+#\d+")


def create_task(
    session: Session,
    *,
    domain: str,
    title: str,
    summary: str,
    body: str,
    priority: int,
    origin: str | None,
    upstream_event: str | None,
    label: Label | None,
) -> TaskView:
    """File a task; see ``Session.create_task``. Entry and filing are appended to the log together."""
    from amem_core.format.entry import clean_text

    held(session, domain)
    _check_filing(priority, origin, upstream_event)
    cleaned = clean_draft(Draft(domain=domain, type="task", title=title, summary=summary, body=body, label=label))
    event_name = None if upstream_event is None else clean_text(upstream_event, "upstream_event")
    runtime = session.runtime
    with runtime.log.writer(domain) as writer:
        committing.settle(runtime, domain, writer)
        relaying.carry(runtime, domain, writer)
        before = _filed_before(session, domain, origin, event_name)
        if before is not None:
            return _view(
                session, before, notices=("filed before under the same origin and event; nothing was written",)
            )
        decision = session.decide(
            "file_task",
            {"domain": domain, "label": None if cleaned.label is None else str(cleaned.label), "origin": origin},
        )
        now = runtime.clock.now()
        given = Label.parse(decision.obligations["label"])
        entry = new_entry(session, cleaned, given, now)
        task = NewTask(
            id=entry.id, domain=domain, label=given, priority=priority, origin=origin, upstream_event=event_name
        )
        # One append for both, so that no crash leaves a task without its text or a text without its task.
        _, notices = committing.commit(
            runtime,
            domain,
            writer,
            [Change(entry, WRITTEN, None)],
            actor=session.author,
            teller=session,
            also=[event_of(FILED, file_task(task, now=now), actor=session.author)],
        )
        relaying.follow(runtime, domain, writer.head)
    return _view(session, runtime.ledger.get(entry.id, now=now), entry=entry, created=True, notices=tuple(notices))


def claim_next(session: Session, *, domain: str | None, lease: timedelta | float, limit: int) -> list[TaskView]:
    """Claim the next tasks; see ``Session.claim_next``."""
    runtime = session.runtime
    length = lease_of(lease)
    if not 1 <= limit <= MOST_CLAIMS:
        message = f"limit {limit} is out of range"
        raise InvalidError(message, hint=f"claim 1 to {MOST_CLAIMS} at a time")
    if domain is not None:
        held(session, domain)
    readable = session.readable.narrowed(domain)
    for name in readable.domains:
        session.decide("claim", {"domain": name, "label": str(session.label)})
        relaying.look(runtime, name)
    tasks = runtime.ledger.claim_next(
        readable, holder=session.author, lease=length, now=runtime.clock.now(), limit=limit
    )
    for name in sorted({task.domain for task in tasks}):
        relaying.relay(runtime, name, [task for task in tasks if task.domain == name])
    return [_view(session, task) for task in tasks]


def claim(session: Session, id: str, *, lease: timedelta | float) -> TaskView:
    """Claim one task; see ``Session.claim``."""
    length = lease_of(lease)
    task = _reach(session, "claim", id)
    runtime = session.runtime
    taken = runtime.ledger.claim(task.id, holder=session.author, lease=length, now=runtime.clock.now())
    relaying.relay(runtime, task.domain, [taken])
    return _view(session, taken)


def heartbeat(session: Session, id: str, *, fence: int, lease: timedelta | float) -> Task:
    """Renew a lease; see ``Session.heartbeat``."""
    length = lease_of(lease)
    task = _reach(session, "heartbeat", id)
    runtime = session.runtime
    renewed = runtime.ledger.heartbeat(task.id, fence=fence, lease=length, now=runtime.clock.now())
    relaying.relay(runtime, task.domain, [renewed])
    return renewed


def finish(session: Session, action: str, id: str, *, fence: int, text: str | None) -> Task:
    """Complete or release a task and leave ``text`` as its handoff; see ``Session.complete`` and ``Session.release``."""
    task = _reach(session, action, id)
    runtime = session.runtime
    handoff = None
    if text is not None and text.strip():
        _check_fence(session, task, fence)
        handoff = _leave_handoff(session, task, action, text)
    step = runtime.ledger.complete if action == "complete" else runtime.ledger.release
    try:
        done = step(
            task.id,
            fence=fence,
            actor=session.author,
            handoff=None if handoff is None else handoff.id,
            now=runtime.clock.now(),
        )
    except ConflictError:
        # Somebody claimed the task between the look at the fence and this step.
        if handoff is not None:
            _take_back(session, handoff)
        raise
    relaying.relay(runtime, task.domain, [done])
    return done


def show(session: Session, id: str) -> TaskView:
    """Return one task; see ``Session.task``."""
    return _view(session, _reach(session, "read", id))


def list_tasks(
    session: Session, *, domain: str | None, statuses: Sequence[TaskStatus], after: str | None, limit: int
) -> list[TaskNode]:
    """Return tasks by id; see ``Session.tasks``."""
    if not 1 <= limit <= MOST_LISTED:
        message = f"limit {limit} is out of range"
        raise InvalidError(message, hint=f"list 1 to {MOST_LISTED} at a time and go on with the last id")
    if domain is not None:
        held(session, domain)
    readable = session.readable.narrowed(domain)
    for name in readable.domains:
        relaying.look(session.runtime, name)
    tasks = session.runtime.ledger.tasks(
        readable,
        now=session.runtime.clock.now(),
        statuses=tuple(statuses),
        after=None if after is None else check_entry_id(after),
        limit=limit,
    )
    session.served([task.label for task in tasks])
    return [TaskNode(task=task, title=_title(session, task)) for task in tasks]


def tree(session: Session, id: str) -> TaskNode:
    """Return a task and all below it; see ``Session.task_tree``."""
    return _node(session, _reach(session, "read", id), frozenset())


def lease_of(lease: timedelta | float) -> timedelta:
    """Return a lease's length.

    Raises:
        InvalidError: it is shorter than a second or longer than a week.
    """
    try:
        length = lease if isinstance(lease, timedelta) else timedelta(seconds=lease)
    except (OverflowError, ValueError) as exc:
        message = f"{lease} seconds is no lease"
        raise InvalidError(message, hint="a lease is 1 second to 7 days") from exc
    if not LOWEST_LEASE <= length <= HIGHEST_LEASE:
        message = f"a lease of {length} is out of range"
        raise InvalidError(message, hint="a lease is 1 second to 7 days; renew it with heartbeat")
    return length


def _check_filing(priority: int, origin: str | None, upstream_event: str | None) -> None:
    if not 0 <= priority <= HIGHEST_PRIORITY:
        message = f"priority {priority} is out of range"
        raise InvalidError(message, hint=f"a priority is 0 to {HIGHEST_PRIORITY}, lower first")
    if origin is not None and not _ORIGIN.fullmatch(origin):
        message = f"{origin!r} is no origin"
        raise InvalidError(
            message, hint="an origin is task:<id>, continues:<id>, librarian:<kind> or github:<owner>/<repo>#<n>"
        )
    if upstream_event is not None and origin is None:
        message = "an upstream event was given without an origin"
        raise InvalidError(message, hint="give both: the pair is filed once")
    if upstream_event is not None and not 1 <= len(upstream_event) <= LONGEST_ORIGIN:
        message = "the upstream event is empty or too long"
        raise InvalidError(message, hint=f"name it in 1 to {LONGEST_ORIGIN} characters")


def _filed_before(session: Session, domain: str, origin: str | None, upstream_event: str | None) -> Task | None:
    """Return the task of the same origin and event, whatever its label: the pair is filed once."""
    if origin is None or upstream_event is None:
        return None
    from amem_core.domain.queries import ReadFilter

    everything = ReadFilter({domain: Label.restricted})
    after = None
    while page := session.runtime.ledger.tasks(
        everything, now=session.runtime.clock.now(), origin=origin, after=after, limit=MOST_LISTED
    ):
        for task in page:
            if task.upstream_event == upstream_event:
                return task
        after = page[-1].id
    return None


def _reach(session: Session, action: str, id: str) -> Task:
    """Return a task that the session may do ``action`` to.

    Raises:
        NotFoundError: there is none in a domain that the session holds.
        DeniedError: the policy refuses the action.
    """
    id = check_entry_id(id)
    runtime = session.runtime
    held_domains = session.readable.domains
    for name in held_domains:
        relaying.look(runtime, name)
    missing = f"there is no task {id}"
    hint = "amem task list shows the tasks; over MCP, claim_next gives one"
    try:
        task = runtime.ledger.get(id, now=runtime.clock.now())
    except NotFoundError as exc:
        raise NotFoundError(missing, hint=hint) from exc
    if task.domain not in held_domains:
        raise NotFoundError(missing, hint=hint)
    resource = {"domain": task.domain, "label": str(task.label)}
    if action == "read":
        resource.update(id=task.id, status="active", type="task")
    session.decide(action, resource, about=task.id)
    return task


def _view(
    session: Session, task: Task, *, entry: Entry | None = None, created: bool = False, notices: tuple[str, ...] = ()
) -> TaskView:
    """Return a task with its text, when the session may read it and the record holds it."""
    title, summary, body, fenced = "", "", "", ""
    if entry is None:
        entry, notices = _text_of(session, task, notices)
    if entry is not None:
        title, summary, body, fenced = entry.title, entry.summary, entry.body, fence_entry(entry)
        session.served([entry.classification])
    return TaskView(task=task, title=title, summary=summary, body=body, fenced=fenced, created=created, notices=notices)


def _text_of(session: Session, task: Task, notices: tuple[str, ...]) -> tuple[Entry | None, tuple[str, ...]]:
    readable = session.readable
    if not readable.allows(task.domain, task.label):
        return None, (*notices, f"its text is {task.label}, above this session's ceiling {session.ceiling}")
    try:
        entry = committing.load(session.runtime, task.domain, task.id).entry
    except (NotFoundError, FormatError) as exc:
        return None, (*notices, f"its text cannot be served: {exc}")
    if not readable.allows(task.domain, entry.classification):
        return None, (*notices, f"its text is {entry.classification}, above this session's ceiling {session.ceiling}")
    if entry.status is Status.erased:
        return None, (*notices, "its text was erased")
    item = rejection(entry)
    if item is not None:
        notices = (*notices, f"its text was rejected: {item.get('reason', '')}")
    return entry, notices


def _title(session: Session, task: Task) -> str:
    hit = session.runtime.index.find(task.id)
    if hit is None or not session.readable.allows(hit.domain, hit.label):
        return ""
    return hit.title


def _node(session: Session, task: Task, above: frozenset[str]) -> TaskNode:
    runtime = session.runtime
    path = above | {task.id}
    children = [
        child
        for origin in (f"task:{task.id}", f"continues:{task.id}")
        for child in runtime.ledger.tasks(session.readable, now=runtime.clock.now(), origin=origin, limit=MOST_LISTED)
        if child.id not in path
    ]
    session.served([task.label])
    return TaskNode(
        task=task, title=_title(session, task), children=tuple(_node(session, child, path) for child in children)
    )


def _check_fence(session: Session, task: Task, fence: int) -> None:
    """Refuse before anything is written; the ledger's own step decides again.

    Raises:
        ConflictError: ``fence`` is not the current one, or the task is completed.
    """
    if task.fence != fence or task.status is TaskStatus.completed:
        raise fence_refused(task, fence=fence, now=session.runtime.clock.now())


def _leave_handoff(session: Session, task: Task, action: str, text: str) -> Entry:
    """Write the holder's text as a handoff entry that cites the task."""
    first = text.strip().splitlines()[0]
    name = session.runtime.index.find(task.id)
    about = name.title if name is not None else task.id
    verb = "Completed" if action == "complete" else "Given back"
    draft = clean_draft(
        Draft(
            domain=task.domain,
            type="handoff" if action == "release" else "artifact",
            title=f"{verb}: {about}",
            summary=first[:300],
            body=text,
            derived_from=(task.id,),
            source=(task.id,),
            label=task.label,
        )
    )
    runtime = session.runtime
    with runtime.log.writer(task.domain) as writer:
        committing.settle(runtime, task.domain, writer)
        label = decide_write(session, task.domain, draft.type, draft.label, None)
        entry = new_entry(session, draft, label, runtime.clock.now())
        committing.commit(
            runtime, task.domain, writer, [Change(entry, WRITTEN, None)], actor=session.author, teller=session
        )
    return entry


def _take_back(session: Session, handoff: Entry) -> None:
    """Archive a handoff whose task went to somebody else meanwhile."""
    runtime = session.runtime
    with runtime.log.writer(handoff.domain) as writer:
        committing.settle(runtime, handoff.domain, writer)
        current = committing.load(runtime, handoff.domain, handoff.id)
        archived = committing.next_version(current, runtime.clock.now(), status=Status.archived)
        change = Change(archived, "entry.archived", current.digest)
        committing.commit(runtime, handoff.domain, writer, [change], actor=session.author)
