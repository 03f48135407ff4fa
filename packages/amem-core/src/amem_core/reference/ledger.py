"""The Ledger port in memory: what the port means, said plainly, to compare backends with.

It holds every task as the pure functions of ``amem_core.domain.task_events`` make it, under one lock,
with no index and no shortcut. What is kept belongs to the root's path and lives as long as the process.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amem_core.domain import task_events as life
from amem_core.domain.events import Event
from amem_core.domain.tasks import NewTask, Outgoing, Task, TaskStatus
from amem_core.errors import CorruptionError, UnavailableError
from amem_core.ports.ledger import LedgerCapabilities

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from amem_core.domain.events import NewEvent
    from amem_core.domain.labels import Label
    from amem_core.domain.queries import ReadFilter
    from amem_core.ports.ledger import Ledger


@dataclass
class _Domain:
    """One domain's outbox, and how far its log was followed."""

    number: int = 0
    watermark: int = 0
    outbox: list[Outgoing] = field(default_factory=list[Outgoing])


@dataclass
class _Root:
    """What one root holds. ``began`` says when the lease of each claimed task last began."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    began: dict[str, datetime] = field(default_factory=dict[str, "datetime"])
    domains: dict[str, _Domain] = field(default_factory=dict[str, _Domain])


_ROOTS: dict[str, _Root] = {}
_ROOTS_LOCK = threading.Lock()


def open_ledger(root: str, settings: object) -> Ledger:  # noqa: ARG001  (there is nothing to set)
    """Return the ledger of ``root``: the same tasks for everyone in this process who opens it."""
    with _ROOTS_LOCK:
        return MemoryLedger(_ROOTS.setdefault(root, _Root()))


class MemoryLedger:
    """See the module and ``amem_core.ports.ledger``."""

    def __init__(self, root: _Root) -> None:
        self._root = root
        self._closed = False

    @property
    def capabilities(self) -> LedgerCapabilities:
        """One process only."""
        return LedgerCapabilities()

    def file(self, task: NewTask, *, actor: str, now: datetime) -> tuple[Task, bool]:
        """File a task, once."""
        life.check_new_task(task)
        life.check_text("actor", actor)
        now = life.utc(now)
        with self._held() as root:
            earlier = _filed_before(root, task)
            if earlier is None:
                return self._keep(life.FILED, life.file_task(task, now=now), actor=actor), True
        if _filing(earlier) != _filing(task):
            raise life.filed_otherwise(earlier)
        return life.seen_at(earlier, now), False

    def claim_next(
        self, readable: ReadFilter, *, holder: str, lease: timedelta, now: datetime, limit: int = 1
    ) -> list[Task]:
        """Claim the first tasks that are free."""
        life.check_text("holder", holder)
        until = life.lease_end(now, lease)
        limit = life.check_limit(limit)
        now = life.utc(now)
        with self._held() as root:
            free = [
                task
                for task in root.tasks.values()
                if readable.allows(task.domain, task.label) and life.seen_at(task, now).status is TaskStatus.ready
            ]
            free.sort(key=lambda task: (task.priority, task.id))
            taken = [
                self._keep(
                    life.CLAIMED, life.claim_task(task, holder=holder, until=life.utc(until), now=now), actor=holder
                )
                for task in free[:limit]
            ]
            self._rebase(readable.domains, actor=holder, now=now)
        return taken

    def claim(self, id: str, *, holder: str, lease: timedelta, now: datetime) -> Task:
        """Claim one task."""
        life.check_text("holder", holder)
        until = life.utc(life.lease_end(now, lease))
        now = life.utc(now)
        with self._held() as root:
            task = _known(root, id)
            if life.seen_at(task, now).status is not TaskStatus.ready:
                self._rebase((task.domain,), actor=holder, now=now)
                raise life.claim_refused(_known(root, id))
            taken = self._keep(life.CLAIMED, life.claim_task(task, holder=holder, until=until, now=now), actor=holder)
            self._rebase((task.domain,), actor=holder, now=now)
        return taken

    def heartbeat(self, id: str, *, fence: int, lease: timedelta, now: datetime) -> Task:
        """Renew a lease."""
        until = life.utc(life.lease_end(now, lease))
        now = life.utc(now)
        with self._held() as root:
            task = _current(root, id, fence=fence, now=now)
            return self._keep(life.RENEWED, life.renew_task(task, until=until, now=now), actor=str(task.holder))

    def complete(self, id: str, *, fence: int, actor: str, handoff: str | None, now: datetime) -> Task:
        """Complete a held task."""
        life.check_text("actor", actor)
        life.check_handoff(handoff)
        now = life.utc(now)
        with self._held() as root:
            task = _current(root, id, fence=fence, now=now)
            return self._keep(life.COMPLETED, life.complete_task(task, handoff=handoff, now=now), actor=actor)

    def release(self, id: str, *, fence: int, actor: str, handoff: str | None, now: datetime) -> Task:
        """Give a held task back."""
        life.check_text("actor", actor)
        life.check_handoff(handoff)
        now = life.utc(now)
        with self._held() as root:
            task = _current(root, id, fence=fence, now=now)
            return self._keep(life.RELEASED, life.release_task(task, handoff=handoff, now=now), actor=actor)

    def relabel(self, id: str, *, label: Label, actor: str, now: datetime) -> Task:
        """Follow a task entry's label."""
        life.check_text("actor", actor)
        now = life.utc(now)
        with self._held() as root:
            after = life.relabel_task(_known(root, id), label=label, now=now)
            return life.seen_at(self._keep(life.RELABELLED, after, actor=actor), now)

    def get(self, id: str, *, now: datetime) -> Task:
        """Return one task as it is at ``now``."""
        with self._held() as root:
            return life.seen_at(_known(root, id), life.utc(now))

    def tasks(
        self,
        readable: ReadFilter,
        *,
        now: datetime,
        statuses: Sequence[TaskStatus] = (),
        origin: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[Task]:
        """Return tasks by id."""
        limit = life.check_limit(limit)
        now = life.utc(now)
        for name, text in (("origin", origin), ("id", after)):
            if text:
                life.check_text(name, text)
        with self._held() as root:
            shown = [life.seen_at(root.tasks[id], now) for id in sorted(root.tasks) if after is None or id > after]
        return [
            task
            for task in shown
            if readable.allows(task.domain, task.label)
            and (not statuses or task.status in statuses)
            and (origin is None or task.origin == origin)
        ][:limit]

    def outgoing(self, domain: str, *, limit: int = 1000) -> list[Outgoing]:
        """Return the outbox, oldest first."""
        limit = life.check_limit(limit)
        with self._held() as root:
            return _domain(root, domain).outbox[:limit]

    def relayed(self, domain: str, *, number: int, through: int) -> None:
        """Take what is in the log out of the outbox."""
        with self._held() as root:
            own = _domain(root, domain)
            if number > own.number:
                return
            own.outbox = [waiting for waiting in own.outbox if waiting.number > number]
            own.watermark = max(own.watermark, through)

    def watermark(self, domain: str) -> int:
        """Return how far the log was followed."""
        with self._held() as root:
            return _domain(root, domain).watermark

    def apply(self, domain: str, events: Iterable[Event], *, through: int) -> None:
        """Follow the log; nothing is changed when an event does not follow."""
        own = [event for event in events if event.kind.startswith(life.PREFIX)]
        with self._held() as root:
            tasks, began, outbox = dict(root.tasks), dict(root.began), list(_domain(root, domain).outbox)
            for event in own:
                _follow(tasks, began, outbox, event)
            root.tasks, root.began = tasks, began
            _domain(root, domain).outbox = outbox
            self.relayed(domain, number=0, through=through)

    def rebuild(self, domain: str, events: Iterable[Event], *, through: int) -> int:
        """Make the domain's tasks again from its log; what the outbox holds beyond it comes behind."""
        own = [event for event in events if event.kind.startswith(life.PREFIX)]
        with self._held() as root:
            tasks = {id: task for id, task in root.tasks.items() if task.domain != domain}
            began = {id: time for id, time in root.began.items() if id in tasks}
            for event in own:
                _follow(tasks, began, [], event)
            before = _domain(root, domain)
            outbox = _what_follows(domain, tasks, began, before.outbox, {_name(event): event for event in own})
            root.tasks, root.began = tasks, began
            root.domains[domain] = _Domain(number=before.number, watermark=through, outbox=outbox)
            return sum(task.domain == domain for task in tasks.values())

    def close(self) -> None:
        """Refuse every later call."""
        self._closed = True

    def _held(self) -> _Turn:
        if self._closed:
            message = "the ledger is closed"
            raise UnavailableError(message, hint="open the memory again")
        return _Turn(self._root)

    def _keep(self, kind: str, after: Task, *, actor: str) -> Task:
        """Keep the task and put the event that tells of the change into the outbox."""
        root = self._root
        own = _domain(root, after.domain)
        own.number += 1
        own.outbox.append(Outgoing(own.number, life.event_of(kind, after, actor=actor)))
        root.tasks[after.id] = after
        _note_lease(root.began, kind, after, after.updated)
        return after

    def _rebase(self, domains: Iterable[str], *, actor: str, now: datetime) -> None:
        """Let leases that began later than ``now`` begin now, when the clock has jumped back."""
        for domain in domains:
            began = {id: time for id, time in self._root.began.items() if self._root.tasks[id].domain == domain}
            if not began or max(began.values()) - now <= life.SKEW:
                continue
            for id in sorted(began):
                task = self._root.tasks[id]
                if began[id] > now and task.lease_until is not None:
                    after = life.renew_task(task, until=now + (task.lease_until - began[id]), now=now)
                    self._keep(life.REBASED, after, actor=actor)


class _Turn:
    """A turn at what a root holds."""

    def __init__(self, root: _Root) -> None:
        self._root = root

    def __enter__(self) -> _Root:
        self._root.lock.acquire()
        return self._root

    def __exit__(self, *_: object) -> None:
        self._root.lock.release()


def _domain(root: _Root, name: str) -> _Domain:
    return root.domains.setdefault(name, _Domain())


def _filing(task: Task | NewTask) -> tuple[str, str | None, str | None]:
    return task.domain, task.origin, task.upstream_event


def _filed_before(root: _Root, task: NewTask) -> Task | None:
    if task.origin is not None and task.upstream_event is not None:
        for earlier in root.tasks.values():
            if _filing(earlier) == _filing(task):
                return earlier
    return root.tasks.get(task.id)


def _known(root: _Root, id: str) -> Task:
    task = root.tasks.get(id)
    if task is None:
        raise life.no_such_task(id)
    return task


def _current(root: _Root, id: str, *, fence: int, now: datetime) -> Task:
    """Return the task if ``fence`` is the current hold on it, run out or not."""
    task = _known(root, id)
    if task.status is not TaskStatus.claimed or task.fence != fence:
        raise life.fence_refused(task, fence=fence, now=now)
    return task


def _note_lease(began: dict[str, datetime], kind: str, after: Task, time: datetime) -> None:
    if kind in life.LEASING:
        began[after.id] = time
    elif after.lease_until is None:
        began.pop(after.id, None)


def _follow(tasks: dict[str, Task], began: dict[str, datetime], outbox: list[Outgoing], event: Event) -> None:
    """Take one event of the log into what is held."""
    task, revision = tasks.get(event.subject), event.data.get("revision")
    if task is None or type(revision) is not int or revision > task.revision or event.domain != task.domain:
        after = life.apply_event(task, event)
        if after.revision == 1 and after.origin is not None and after.upstream_event is not None:
            for other in tasks.values():
                if _filing(other) == _filing(after):
                    raise life.filed_twice(event, other.id)
        tasks[after.id] = after
        _note_lease(began, event.kind, after, event.time)
        return
    for waiting in outbox:
        if _name(waiting.event) != _name(event):
            continue
        if _told(waiting.event) != _told(event):
            raise life.diverged(event)
        outbox.remove(waiting)
        return


def _what_follows(
    domain: str,
    tasks: dict[str, Task],
    began: dict[str, datetime],
    outbox: list[Outgoing],
    logged: Mapping[tuple[str, str], Event],
) -> list[Outgoing]:
    """Take what is not in the log and follows from it into what is held; return that part of the outbox."""
    kept: list[Outgoing] = []
    dropped: set[str] = set()
    for waiting in outbox:
        sent = waiting.event
        known = logged.get(_name(sent))
        if known is not None and _told(known) == _told(sent):
            continue
        held = tasks.get(sent.subject)
        if sent.subject in dropped or sent.data["revision"] != (1 if held is None else held.revision + 1):
            dropped.add(sent.subject)
            continue
        try:
            _follow(tasks, began, [], Event(domain, 0, *sent, chain=""))
        except CorruptionError:
            dropped.add(sent.subject)
            continue
        kept.append(waiting)
    return kept


def _name(event: Event | NewEvent) -> tuple[str, str]:
    """Return what an event is known by: its task, and the revision that it made."""
    return event.subject, repr(event.data.get("revision"))


def _told(event: Event | NewEvent) -> tuple[object, ...]:
    return event.kind, event.actor, event.time, dict(event.data)
