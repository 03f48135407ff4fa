"""Tasks to file, and a log that a list can be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from amem_core.domain.events import Event, NewEvent
from amem_core.domain.labels import Label
from amem_core.domain.queries import ReadFilter
from amem_core.domain.tasks import NewTask, Task
from amem_core.ports.ledger import Ledger

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(minutes=10)
ALL = ReadFilter({"d": Label.restricted, "e": Label.restricted})
OWNER = "owner"
ONE, TWO = "session:one", "session:two"


def new(
    id: str,
    domain: str = "d",
    *,
    label: Label = Label.internal,
    priority: int = 100,
    origin: str | None = None,
    event: str | None = None,
) -> NewTask:
    """Return a task to file."""
    return NewTask(id=id, domain=domain, label=label, priority=priority, origin=origin, upstream_event=event)


def file(ledger: Ledger, *tasks: NewTask, now: datetime = START) -> list[Task]:
    """File the tasks; return them."""
    return [ledger.file(task, actor=OWNER, now=now)[0] for task in tasks]


def claim(ledger: Ledger, holder: str = ONE, *, now: datetime = START, lease: timedelta = LEASE) -> Task | None:
    """Claim the next task, if there is one."""
    return next(iter(ledger.claim_next(ALL, holder=holder, lease=lease, now=now)), None)


def taken(ledger: Ledger, holder: str = ONE, *, now: datetime = START, lease: timedelta = LEASE) -> Task:
    """Claim the next task, which there is."""
    (task,) = ledger.claim_next(ALL, holder=holder, lease=lease, now=now)
    return task


def done(ledger: Ledger, task: Task, *, now: datetime = START, handoff: str | None = None) -> Task:
    """Complete a task as its holder."""
    return ledger.complete(task.id, fence=task.fence, actor=str(task.holder), handoff=handoff, now=now)


class Book:
    """One domain's log as a list, with the steps in which a caller carries the outbox to it."""

    def __init__(self, domain: str = "d") -> None:
        self.domain = domain
        self.events: list[Event] = []

    def append(self, *events: NewEvent) -> None:
        """Put the events behind the others."""
        for event in events:
            placed = Event(
                domain=self.domain,
                seq=len(self.events) + 1,
                kind=event.kind,
                subject=event.subject,
                actor=event.actor,
                time=event.time,
                data=event.data,
                chain="",
            )
            self.events.append(placed)

    def follow(self, ledger: Ledger) -> None:
        """Let the ledger follow what is in the log."""
        mark = ledger.watermark(self.domain)
        ledger.apply(self.domain, iter(self.events[mark:]), through=len(self.events))

    def carry(self, ledger: Ledger, *, crash: bool = False) -> list[NewEvent]:
        """Carry the outbox to the log; ``crash`` ends it between the append and the record of it."""
        self.follow(ledger)
        outgoing = ledger.outgoing(self.domain)
        self.append(*(item.event for item in outgoing))
        if outgoing and not crash:
            ledger.relayed(self.domain, number=outgoing[-1].number, through=len(self.events))
        return [item.event for item in outgoing]

    def rebuild(self, ledger: Ledger) -> int:
        """Make the domain's tasks from the log again; return how many there are."""
        return ledger.rebuild(self.domain, iter(self.events), through=len(self.events))


def everything(ledger: Ledger, now: datetime = START) -> list[Task]:
    """Return every task of the domains that the suite uses."""
    return ledger.tasks(ALL, now=now, limit=100_000)


def kinds(ledger: Ledger, domain: str = "d") -> list[str]:
    """Return the kinds of what is in the outbox."""
    return [item.event.kind for item in ledger.outgoing(domain)]
