"""The Ledger port: what is promised, with leases and fences."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta

    from amem_core.domain.events import Event
    from amem_core.domain.labels import Label
    from amem_core.domain.queries import ReadFilter
    from amem_core.domain.tasks import NewTask, Outgoing, Task, TaskStatus


class LedgerCapabilities(NamedTuple):
    """What a ledger can promise beyond the base contract.

    ``files`` are the names below the root's ``state`` that are its own: nobody else changes those.
    """

    multi_process: bool = False
    files: tuple[str, ...] = ()


class Ledger(Protocol):
    """The projection of task events, and the one place where a claim is decided.

    Each change is one atomic step that also records its event in the ledger's outbox. The caller
    carries the outbox to the domain's log (``outgoing``, ``relayed``) before it acknowledges the
    change. A ledger need not be durable by itself: what a crash takes is in the log and comes back
    through ``apply``. Callable from any thread.

    Time is the caller's: ``now`` is aware and in UTC. A clock that jumps back never gives away a
    live lease: a lease renewed at a time later than ``now`` counts as renewed now, so that it lasts
    one lease's length from the first look at it.

    Raises, every method: ``UnavailableError`` when the ledger cannot be reached.
    """

    @property
    def capabilities(self) -> LedgerCapabilities:
        """What this ledger can promise, as configured."""
        ...

    def file(self, task: NewTask, *, actor: str, now: datetime) -> tuple[Task, bool]:
        """File a task; return it and True, or the one that was filed before under the same origin and event and False.

        Raises:
            ConflictError: a task of that id exists with another origin or event.
        """
        ...

    def claim_next(
        self, readable: ReadFilter, *, holder: str, lease: timedelta, now: datetime, limit: int = 1
    ) -> list[Task]:
        """Claim up to ``limit`` tasks that are ready, or whose lease ran out, in order of priority, then id.

        Only tasks whose domain and label ``readable`` allows. One atomic step: no two callers are
        given the same task. Each claim raises the task's fence by one. Empty when there is none.
        """
        ...

    def claim(self, id: str, *, holder: str, lease: timedelta, now: datetime) -> Task:
        """Claim one task by id.

        Raises:
            NotFoundError: there is no such task.
            ConflictError: it is completed, or held: the message says by whom and until when.
        """
        ...

    def heartbeat(self, id: str, *, fence: int, lease: timedelta, now: datetime) -> Task:
        """Renew the holder's lease to ``now + lease``; possible after it ran out while nobody else has claimed.

        Raises:
            NotFoundError: there is no such task.
            ConflictError: ``fence`` is not the current one, or the task is not claimed: the message
                says who holds it now.
        """
        ...

    def complete(self, id: str, *, fence: int, actor: str, handoff: str | None, now: datetime) -> Task:
        """Complete the task.

        Raises:
            NotFoundError: there is no such task.
            ConflictError: ``fence`` is not the current one or the task is not claimed.
        """
        ...

    def release(self, id: str, *, fence: int, actor: str, handoff: str | None, now: datetime) -> Task:
        """Give the task back to the pool.

        Raises:
            NotFoundError: there is no such task.
            ConflictError: ``fence`` is not the current one or the task is not claimed.
        """
        ...

    def relabel(self, id: str, *, label: Label, actor: str, now: datetime) -> Task:
        """Follow a change of the task entry's label.

        Raises:
            NotFoundError: there is no such task.
        """
        ...

    def get(self, id: str, *, now: datetime) -> Task:
        """Return one task; one whose lease has run out at ``now`` is shown ``ready``.

        Raises:
            NotFoundError: there is no such task.
        """
        ...

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
        """Return tasks that ``readable`` allows, by id, beginning behind ``after``."""
        ...

    def outgoing(self, domain: str, *, limit: int = 1000) -> list[Outgoing]:
        """Return events that are not known to be in the domain's log, oldest first."""
        ...

    def relayed(self, domain: str, *, number: int, through: int) -> None:
        """Record that every outgoing event up to ``number`` is in the log, whose event ``through`` was followed.

        A number that was not given yet changes nothing: it is one of a ledger that was set aside since.
        """
        ...

    def watermark(self, domain: str) -> int:
        """Return the sequence number through which the domain's log was followed; 0 for none."""
        ...

    def apply(self, domain: str, events: Iterable[Event], *, through: int) -> None:
        """Follow events of the domain's log, in order; those that are no ``task.*`` events are passed over.

        An event that the projection already holds (same task, same revision) only leaves the outbox.
        """
        ...

    def rebuild(self, domain: str, events: Iterable[Event], *, through: int) -> int:
        """Replace all that is kept of the domain by what its log comes to, in one step; return how many tasks it has.

        ``events`` are the whole log, from its first event to ``through``, and the caller is its only
        writer. Others see the old state until the new one is whole, and may change it meanwhile: what
        the outbox then holds and the log does not stays in the outbox and is taken behind the events,
        so that whoever made it can still carry it. What does not follow from the log is dropped from
        the outbox: the log is right. Numbers of outgoing events go on from where they were.

        A damaged ledger is set aside and begun anew, for every domain, with an empty outbox: what had
        not been carried was never acknowledged.

        Raises:
            CorruptionError: an event does not follow from those before it. Nothing was changed.
        """
        ...

    def close(self) -> None:
        """Release what is held. Idempotent."""
        ...
