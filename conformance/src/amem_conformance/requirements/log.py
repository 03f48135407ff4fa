"""What is demanded of the Log port."""

from __future__ import annotations

from typing import Final

from amem_conformance.manifest import Requirement

_PROCESSES: Final = frozenset({"multi_process"})


def _demand(id: str, source: str, behaviour: str, needs: frozenset[str] = frozenset()) -> Requirement:
    return Requirement(id=f"log:{id}", source=source, behaviour=behaviour, needs=needs)


REQUIREMENTS: list[Requirement] = [
    _demand("append:numbers", "contract 5: Log", "Events are numbered from 1 without a gap."),
    _demand("append:fields", "port: Event", "An event is read with every field as it was given."),
    _demand("append:group", "port: append", "Events that are appended together are numbered in their order."),
    _demand("append:durable", "contract 5: Log", "What was acknowledged is there after reopening; numbers go on."),
    _demand("append:chain", "port: Event", "Each event's chain follows from the one before."),
    _demand("append:refused", "port: append", "An event that cannot be logged is refused with all given with it."),
    _demand("read:after", "port: read", "Reading after a number begins with the next one."),
    _demand("read:far", "port: read", "Reading begins anywhere in a long log."),
    _demand("read:own-writes", "port: head", "An append is read at once by the same and by another instance."),
    _demand("read:unknown", "port: read", "A log that has not begun is empty and is not listed."),
    _demand("domains:apart", "port: domains", "Each domain has its own numbers and is listed once it has an event."),
    _demand("names:refused", "case: names-that-are-paths", "A domain that could be a path is refused."),
    _demand("close:idempotent", "port: close", "Closing twice is closing once."),
    _demand("writer:exclusive", "contract 5: Log", "A domain has one writer at a time, across threads and instances."),
    _demand("writer:waits", "port: writer", "Whoever waits becomes the writer when the one before has ended."),
    _demand("writer:fails", "port: writer", "A writer whose work fails lets go, and what it appended stays."),
    _demand("writer:ended", "port: LogWriter", "A writer whose context has ended appends nothing."),
    _demand("threads:writers", "port: Log", "Threads that append to one domain lose no event and keep their order."),
    _demand("threads:readers", "port: append", "A reader beside a writer sees whole groups in order."),
    _demand("process:writers", "contract 5: Log", "Processes that append to one domain lose no event.", _PROCESSES),
    _demand("process:exclusive", "port: writer", "A process that dies is no longer the writer.", _PROCESSES),
    _demand(
        "process:killed",
        "contract 5: Log",
        "A writer that is killed loses no acknowledged event and leaves no half group.",
        _PROCESSES,
    ),
    _demand("tail:torn", "case: torn-log", "A torn tail is not read, and the next writer goes on behind it."),
    _demand("tail:told", "port: torn", "A torn tail is told by its length, and repairing it leaves none."),
    _demand("tail:group", "port: append", "A group that was cut short is there whole or not at all."),
    _demand("damage:inside", "case: torn-log", "Damage inside is an alarm; what follows it can be read."),
    _demand("damage:end", "port: writer", "Damage in the last event is an alarm, and nothing is cut off."),
    _demand("model:reference", "port: Log", "Any sequence of calls is answered as the reference answers it."),
    _demand("shape:signatures", "port: Log", "Every method takes the port's parameters under the port's names."),
]
