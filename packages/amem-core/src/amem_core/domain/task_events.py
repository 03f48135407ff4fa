"""A task's life as pure functions: its transitions, the events that tell of them, and the way back.

Every ledger uses these, so that one event log means the same tasks whichever backend projects it.
A transition makes the task after it; ``event_of`` tells of it; ``apply_event`` makes the same task
from the event again. Times in an event's data are RFC 3339 in UTC with microseconds and ``Z``.

What each kind's ``data`` holds, besides ``revision`` and ``fence``:

=================== =====================================================
``task.filed``      ``label``, ``priority``, ``origin``, ``upstream_event``
``task.claimed``    ``holder``, ``lease_until``, ``lease_seconds``
``task.renewed``    the same: the holder's heartbeat
``task.rebased``    the same: the clock had jumped back, the lease counts from now
``task.completed``  ``handoff``
``task.released``   ``handoff``
``task.relabelled`` ``label``
=================== =====================================================
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from amem_core.domain.events import NewEvent
from amem_core.domain.labels import Label
from amem_core.domain.tasks import NewTask, Task, TaskStatus
from amem_core.errors import AmemError, ConflictError, CorruptionError, InvalidError, NotFoundError

if TYPE_CHECKING:
    from amem_core.domain.events import Event

PREFIX = "task."
FILED = "task.filed"
CLAIMED = "task.claimed"
RENEWED = "task.renewed"
REBASED = "task.rebased"
COMPLETED = "task.completed"
RELEASED = "task.released"
RELABELLED = "task.relabelled"
LEASING = frozenset({CLAIMED, RENEWED, REBASED})
"""The kinds that set a lease; it counts from the event's time."""

SKEW = timedelta(seconds=5)
"""How far behind the latest renewal a caller's time may be before the clock is taken to have jumped back.

Callers read the clock before they wait for their turn, so their times arrive a little out of order.
A lease lasts longer by at most this much.
"""

_BIGGEST = 2**63 - 1


# -- checks of what a caller gives ----------------------------------------------------------------


def check_new_task(task: NewTask) -> None:
    """Refuse a task that a ledger cannot keep as it is.

    Raises:
        InvalidError: a text is empty, holds NUL or a lone surrogate, or the priority is no 64-bit integer.
    """
    check_text("id", task.id)
    check_text("domain", task.domain)
    if task.origin is not None:
        check_text("origin", task.origin)
    if task.upstream_event is not None:
        check_text("upstream event", task.upstream_event)
    if type(task.priority) is not int or not -_BIGGEST - 1 <= task.priority <= _BIGGEST:
        message = f"the priority of a task is a whole number of 64 bits, {task.priority!r} is not"
        raise InvalidError(message, hint="lower is claimed first; 100 is usual")


def check_text(name: str, value: object) -> str:
    """Return ``value`` if it can be kept and logged as it is.

    Raises:
        InvalidError: it is no text, is empty, or holds NUL or a lone surrogate.
    """
    if type(value) is str and value and "\0" not in value and (value.isascii() or is_utf8(value)):
        return value
    message = f"a task's {name} must be text that UTF-8 can write, without NUL; {value!r} is not"
    raise InvalidError(message, hint="give at least one character, and repair what was decoded wrongly")


def check_handoff(handoff: object) -> str | None:
    """Return ``handoff`` if it is None or can be kept as it is.

    Raises:
        InvalidError: it is neither.
    """
    return None if handoff is None else check_text("handoff", handoff)


def is_utf8(value: str) -> bool:
    """Return whether UTF-8 can write ``value``: a lone surrogate it cannot."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def check_limit(limit: int) -> int:
    """Return ``limit`` if so many can be asked for.

    Raises:
        InvalidError: it is less than one.
    """
    if limit >= 1:
        return min(limit, _BIGGEST)
    message = f"a limit counts from 1, {limit} was asked for"
    raise InvalidError(message, hint="ask for at least one")


def lease_end(now: datetime, lease: timedelta) -> datetime:
    """Return when a lease that begins at ``now`` runs out.

    Raises:
        InvalidError: the lease is not longer than nothing, or ends after the year 9999.
    """
    if lease <= timedelta(0):
        message = f"a lease lasts longer than nothing, {lease.total_seconds()} s was asked for"
        raise InvalidError(message, hint="ask for the time until the next heartbeat, at least")
    try:
        return now + lease
    except OverflowError as exc:
        message = f"a lease of {lease.days} days ends after the year 9999"
        raise InvalidError(message, hint="ask for less, and renew it with heartbeat") from exc


# One call asks for the same moment several times.
@lru_cache(maxsize=64)
def time_text(time: datetime) -> str:
    """Return ``time`` as RFC 3339 in UTC with microseconds and ``Z``: in the order of time when sorted as text.

    Raises:
        InvalidError: it is naive, or UTC cannot express it.
    """
    if time.tzinfo is not UTC:
        time = utc(time)
    return time.isoformat(timespec="microseconds")[:-6] + "Z"


def utc(time: datetime) -> datetime:
    """Return ``time`` in UTC.

    Raises:
        InvalidError: it is naive, or UTC cannot express it.
    """
    if time.tzinfo is UTC:
        return time
    if time.tzinfo is None:
        message = f"a ledger's time must carry its zone, {time.isoformat()} does not"
        raise InvalidError(message, hint="give the time in UTC")
    try:
        return time.astimezone(UTC)
    except OverflowError as exc:
        message = f"UTC cannot express {time.isoformat()}"
        raise InvalidError(message, hint="give a time in the years 1 to 9999") from exc


# -- transitions ----------------------------------------------------------------------------------


def file_task(new: NewTask, *, now: datetime) -> Task:
    """Return the task that a filing makes."""
    return Task(
        id=new.id,
        domain=new.domain,
        label=new.label,
        status=TaskStatus.ready,
        priority=new.priority,
        origin=new.origin,
        upstream_event=new.upstream_event,
        holder=None,
        fence=0,
        lease_until=None,
        handoff=None,
        created=now,
        updated=now,
        revision=1,
    )


def claim_task(task: Task, *, holder: str, until: datetime, now: datetime) -> Task:
    """Return the task as ``holder`` has it: the fence has grown by one."""
    return replace(
        task,
        status=TaskStatus.claimed,
        holder=holder,
        fence=task.fence + 1,
        lease_until=until,
        updated=now,
        revision=task.revision + 1,
    )


def renew_task(task: Task, *, until: datetime, now: datetime) -> Task:
    """Return the task with its lease set anew, by a heartbeat or because the clock had jumped back."""
    return replace(task, lease_until=until, updated=now, revision=task.revision + 1)


def complete_task(task: Task, *, handoff: str | None, now: datetime) -> Task:
    """Return the completed task; ``holder`` stays, and so does the handoff when none is given."""
    return replace(
        task,
        status=TaskStatus.completed,
        lease_until=None,
        handoff=task.handoff if handoff is None else handoff,
        updated=now,
        revision=task.revision + 1,
    )


def release_task(task: Task, *, handoff: str | None, now: datetime) -> Task:
    """Return the task that nobody holds; the handoff of an earlier holder stays when none is given."""
    return replace(
        task,
        status=TaskStatus.ready,
        holder=None,
        lease_until=None,
        handoff=task.handoff if handoff is None else handoff,
        updated=now,
        revision=task.revision + 1,
    )


def relabel_task(task: Task, *, label: Label, now: datetime) -> Task:
    """Return the task under another label; whoever holds it goes on holding it."""
    return replace(task, label=label, updated=now, revision=task.revision + 1)


def seen_at(task: Task, now: datetime) -> Task:
    """Return the task as it is shown at ``now``: one whose lease has run out is ready and held by nobody."""
    if task.lease_until is None or task.lease_until > now:
        return task
    return replace(task, status=TaskStatus.ready, holder=None, lease_until=None)


# -- events ---------------------------------------------------------------------------------------


def event_of(kind: str, after: Task, *, actor: str) -> NewEvent:
    """Return the event that tells of the transition ``kind``, which made the task ``after``."""
    data: dict[str, Any] = {"revision": after.revision, "fence": after.fence}
    if kind in LEASING:
        if after.lease_until is None:
            message = f"task {after.id} was {kind.removeprefix(PREFIX)} without a lease"
            raise CorruptionError(message, hint="run `amem reindex`")
        data["holder"] = after.holder
        data["lease_until"] = time_text(after.lease_until)
        data["lease_seconds"] = (after.lease_until - after.updated).total_seconds()
    elif kind == FILED:
        data["label"] = after.label.name
        data["priority"] = after.priority
        data["origin"] = after.origin
        data["upstream_event"] = after.upstream_event
    elif kind == RELABELLED:
        data["label"] = after.label.name
    else:
        data["handoff"] = after.handoff
    return NewEvent(kind, after.id, actor, after.updated, data)


def apply_event(task: Task | None, event: Event) -> Task:
    """Return the task as ``event`` leaves it; ``task`` is what the events before it made, None for the first.

    Raises:
        CorruptionError: the event does not follow: it skips a revision, is of another domain, or its
            data are not those of its kind.
    """
    if task is None:
        if event.kind != FILED or event.data.get("revision") != 1:
            raise _broken(event, "is about a task that was never filed")
        return _filed(event)
    if event.domain != task.domain:
        raise _broken(event, f"is about a task of the domain {task.domain}")
    if event.kind == FILED or event.data.get("revision") != task.revision + 1:
        raise _broken(event, f"does not follow revision {task.revision} of its task")
    try:
        return _followed(task, event)
    except (KeyError, TypeError, ValueError, AmemError) as exc:
        raise _broken(event, f"has data that do not fit its kind ({exc!r})") from exc


def _filed(event: Event) -> Task:
    data = event.data
    try:
        new = NewTask(
            id=event.subject,
            domain=event.domain,
            label=Label.parse(data["label"]),
            priority=data["priority"],
            origin=data["origin"],
            upstream_event=data["upstream_event"],
        )
        check_new_task(new)
    except (KeyError, AmemError) as exc:
        raise _broken(event, f"has data that do not fit its kind ({exc!r})") from exc
    return file_task(new, now=event.time)


def _followed(task: Task, event: Event) -> Task:
    data, now = event.data, event.time
    if event.kind == CLAIMED:
        after = claim_task(task, holder=check_text("holder", data["holder"]), until=_until(event), now=now)
    elif event.kind in LEASING:
        after = renew_task(task, until=_until(event), now=now)
    elif event.kind == COMPLETED:
        after = complete_task(task, handoff=check_handoff(data["handoff"]), now=now)
    elif event.kind == RELEASED:
        after = release_task(task, handoff=check_handoff(data["handoff"]), now=now)
    elif event.kind == RELABELLED:
        after = relabel_task(task, label=Label.parse(data["label"]), now=now)
    else:
        raise _broken(event, "is of a kind that this version does not know")
    if after.fence != data["fence"]:
        raise _broken(event, f"has fence {data['fence']} where {after.fence} follows")
    return after


def _until(event: Event) -> datetime:
    return utc(datetime.fromisoformat(event.data["lease_until"]))


def _broken(event: Event, why: str) -> CorruptionError:
    message = f"event {event.seq} of the domain {event.domain}, {event.kind} of {event.subject!r}, {why}"
    return CorruptionError(message, hint="run `amem reindex`; if that stops here too, the log was changed by hand")


def diverged(event: Event) -> CorruptionError:
    """Return the error for a log that tells of another transition than the one that the ledger made."""
    return _broken(event, "is not the event that the ledger recorded under that revision: the log is right")


def filed_twice(event: Event, other: str) -> CorruptionError:
    """Return the error for a log that files one origin and event under two ids."""
    return _broken(event, f"files again what {other!r} was filed for")


# -- refusals -------------------------------------------------------------------------------------


def no_such_task(id: str) -> NotFoundError:
    """Return the error for an id that the ledger does not know."""
    return NotFoundError(f"there is no task {id!r}", hint="copy the id from a listing of tasks")


def filed_otherwise(task: Task) -> ConflictError:
    """Return the error for a filing under an id that another task has."""
    origin = f"origin {task.origin!r} and event {task.upstream_event!r}"
    message = f"task {task.id} was filed before, in the domain {task.domain} with {origin}"
    return ConflictError(message, hint="file it under a new id")


def claim_refused(task: Task) -> ConflictError:
    """Return the error for a claim of a task that is held or completed."""
    if task.status is TaskStatus.completed:
        hint = "claim another task, or file a new one that continues it"
    else:
        hint = "claim another task, or try again after that time"
    return ConflictError(f"task {task.id} cannot be claimed: it {_standing(task)}", hint=hint, **_context(task))


def fence_refused(task: Task, *, fence: int, now: datetime) -> ConflictError:
    """Return the error for a holder's call without the current fence, or on a task that is not claimed."""
    expired = " (that lease has run out)" if task.lease_until is not None and task.lease_until <= now else ""
    message = f"fence {fence} is not the current hold on task {task.id}: it {_standing(task)}{expired}"
    if task.status is TaskStatus.completed:
        hint = "stop working on it; write what you found as an entry that cites the task"
    elif task.fence == fence:
        hint = "claim it again, and go on with the new fence"
    else:
        hint = "stop working on it; write what you found as an entry that cites the task, and claim another"
    return ConflictError(message, hint=hint, **_context(task))


def _standing(task: Task) -> str:
    if task.status is TaskStatus.completed:
        return f"was completed by {task.holder} at {time_text(task.updated)} with fence {task.fence}"
    if task.status is TaskStatus.claimed and task.lease_until is not None:
        return f"is held by {task.holder} until {time_text(task.lease_until)} with fence {task.fence}"
    return f"is held by nobody; the last fence was {task.fence}"


def _context(task: Task) -> dict[str, object]:
    return {"task": task.id, "status": str(task.status), "holder": task.holder, "fence": task.fence}
