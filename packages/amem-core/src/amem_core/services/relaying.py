"""Carrying ledger events to the domain's log, exactly once and in order.

A ledger decides a transition and keeps its event in an outbox; the transition is acknowledged when
the event is durable in the log. What a crash leaves in between is carried by whoever comes next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.domain.task_events import seen_at
from amem_core.errors import NotFoundError, UnavailableError
from amem_core.services import looking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amem_core.domain.tasks import Task
    from amem_core.ports.log import LogWriter
    from amem_core.runtime import Runtime

_BATCH = 1000


def relay(runtime: Runtime, domain: str, changed: Sequence[Task]) -> None:
    """Bring the domain's ledger and log together: follow the log, then carry the outbox to it.

    ``changed`` are the domain's tasks as the caller's steps left them. Their events are durable on return.

    Raises:
        UnavailableError: an event is not in the log, because the ledger that held it was damaged and
            began anew: the step did not happen.
    """
    with runtime.log.writer(domain) as writer:
        sent = carry(runtime, domain, writer)
    for task in changed:
        if (task.id, task.revision) not in sent:
            _check_carried(runtime, task)


def carry(runtime: Runtime, domain: str, writer: LogWriter) -> set[tuple[str, object]]:
    """Do what ``relay`` does, as the domain's only writer already; return the task and revision of each event sent.

    Raises:
        CorruptionError: the ledger has followed more events than the log holds.
    """
    ledger = runtime.ledger
    follow(runtime, domain, writer.head)
    sent: set[tuple[str, object]] = set()
    carried = _BATCH
    while carried == _BATCH:
        outgoing = ledger.outgoing(domain, limit=_BATCH)
        carried = len(outgoing)
        if outgoing:
            writer.append([item.event for item in outgoing])
            ledger.relayed(domain, number=outgoing[-1].number, through=writer.head)
            sent.update((item.event.subject, item.event.data["revision"]) for item in outgoing)
    return sent


def _check_carried(runtime: Runtime, task: Task) -> None:
    """Check that somebody else carried what made ``task``: the ledger, whose outbox is empty, still holds it."""
    try:
        found = runtime.ledger.get(task.id, now=task.updated)
    except NotFoundError:
        found = None
    if found is not None:
        if found.revision > task.revision and found.fence >= task.fence:
            return
        if found == seen_at(task, task.updated):
            return
    message = f"what was done to {task.id} is not in the log of {task.domain}: the ledger was damaged and began anew"
    raise UnavailableError(message, hint="look at the task, then do it again")


def follow(runtime: Runtime, domain: str, head: int) -> None:
    """Let the ledger follow the log to ``head``; the caller is the domain's only writer."""
    _follow(runtime, domain, runtime.ledger.watermark(domain), head)


def _follow(runtime: Runtime, domain: str, mark: int, head: int) -> None:
    if mark > head:
        raise looking.log_too_short(domain, "ledger", mark, head)
    if mark < head:
        runtime.ledger.apply(domain, runtime.log.read(domain, after=mark), through=head)


def look(runtime: Runtime, domain: str) -> None:
    """Before the ledger is used, once per process: follow the log, and carry what a crash left in the outbox."""
    looking.look(runtime, domain)
    if domain in runtime.carried:
        return
    # In this order: a writer of this moment moves the head first, and the watermark behind it.
    mark = runtime.ledger.watermark(domain)
    _follow(runtime, domain, mark, runtime.log.head(domain))
    if runtime.ledger.outgoing(domain, limit=1):
        try:
            with runtime.log.writer(domain, wait=0) as writer:
                carry(runtime, domain, writer)
        except UnavailableError:
            # The domain's writer of this moment carries it with its own.
            return
    runtime.carried.add(domain)
