"""Carrying ledger events to the domain's log, exactly once and in order.

A ledger decides a transition and keeps its event in an outbox; the transition is acknowledged when
the event is durable in the log. What a crash leaves in between is carried by whoever comes next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.errors import CorruptionError, UnavailableError
from amem_core.services import looking

if TYPE_CHECKING:
    from amem_core.ports.log import LogWriter
    from amem_core.runtime import Runtime

_BATCH = 1000


def relay(runtime: Runtime, domain: str) -> None:
    """Bring the domain's ledger and log together: follow the log, then carry the outbox to it.

    Durable on return.
    """
    with runtime.log.writer(domain) as writer:
        carry(runtime, domain, writer)


def carry(runtime: Runtime, domain: str, writer: LogWriter) -> None:
    """Do what ``relay`` does, as the domain's only writer already.

    Raises:
        CorruptionError: the ledger has followed more events than the log holds.
    """
    ledger = runtime.ledger
    follow(runtime, domain, writer.head)
    carried = _BATCH
    while carried == _BATCH:
        outgoing = ledger.outgoing(domain, limit=_BATCH)
        carried = len(outgoing)
        if outgoing:
            writer.append([item.event for item in outgoing])
            ledger.relayed(domain, number=outgoing[-1].number, through=writer.head)


def follow(runtime: Runtime, domain: str, head: int) -> None:
    """Let the ledger follow the log to ``head``."""
    mark = runtime.ledger.watermark(domain)
    if mark > head:
        message = f"the ledger has followed {mark} events of {domain}, but its log holds {head}"
        raise CorruptionError(message, hint="restore the log; or, if it is right, run amem reindex")
    if mark < head:
        runtime.ledger.apply(domain, runtime.log.read(domain, after=mark), through=head)


def look(runtime: Runtime, domain: str) -> None:
    """Before the ledger is used, once per process: follow the log, and carry what a crash left in the outbox."""
    looking.look(runtime, domain)
    if domain in runtime.carried:
        return
    follow(runtime, domain, runtime.log.head(domain))
    if runtime.ledger.outgoing(domain, limit=1):
        try:
            with runtime.log.writer(domain, wait=0) as writer:
                carry(runtime, domain, writer)
        except UnavailableError:
            # The domain's writer of this moment carries it with its own.
            return
    runtime.carried.add(domain)
