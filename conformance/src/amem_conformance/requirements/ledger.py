"""What is demanded of the Ledger port."""

from __future__ import annotations

from typing import Final

from amem_conformance.manifest import Requirement

_PROCESSES: Final = frozenset({"multi_process"})
_CONTRACT: Final = "contract 5: Ledger"


def _demand(id: str, source: str, behaviour: str, needs: frozenset[str] = frozenset()) -> Requirement:
    return Requirement(id=f"ledger:{id}", source=source, behaviour=behaviour, needs=needs)


REQUIREMENTS: list[Requirement] = [
    _demand("file:new", "port: file", "A filed task is ready, held by nobody, with fence 0 and revision 1."),
    _demand(
        "file:once", _CONTRACT, "An origin and event is filed once in a domain; the task filed before is returned."
    ),
    _demand("file:per-domain", "port: NewTask", "The same origin and event is filed once in each domain."),
    _demand("file:no-event", "port: NewTask", "Tasks without an origin or without an event are never taken for one."),
    _demand("file:repeat", "port: file", "The same filing under the same id again changes nothing."),
    _demand("file:id-taken", "port: file", "An id that another origin, event or domain has is refused."),
    _demand("file:race", _CONTRACT, "Threads that file one origin and event at once file one task."),
    _demand("file:race:processes", _CONTRACT, "Processes that file one origin and event at once do too.", _PROCESSES),
    _demand("text:kept", "case: nul-and-surrogates", "Any text that UTF-8 can write is kept and sent as it is."),
    _demand("text:refused", "case: nul-and-surrogates", "NUL, a lone surrogate or empty text is refused, unchanged."),
    _demand("number:refused", "contract 7", "A priority, lease, limit or time that cannot be kept is refused."),
    _demand("claim:order", "port: claim_next", "Tasks are claimed in order of priority, then id."),
    _demand("claim:many", "port: claim_next", "Up to as many as are asked for are claimed, in that order."),
    _demand("claim:none", "port: claim_next", "With nothing to claim the answer is empty and nothing changes."),
    _demand("claim:readable", "port: claim_next", "Only tasks of readable domains and labels are claimed."),
    _demand("claim:readable:many-domains", "port: claim_next", "That holds for any number of domains."),
    _demand("claim:state", "port: claim_next", "A claimed task names its holder and its lease's end; its fence grew."),
    _demand("claim:by-id", "port: claim", "A ready task is claimed by id."),
    _demand("claim:held", "port: claim", "A held task is refused, with who holds it and until when."),
    _demand("claim:completed", "port: claim", "A completed task is refused, and never claimed again."),
    _demand("claim:unknown", "port: Raises", "An id that is unknown is not found, whatever is asked of it."),
    _demand("claim:atomic:threads", _CONTRACT, "Eight threads never hold one task at once; fences grow by one."),
    _demand("claim:atomic:processes", _CONTRACT, "Four processes never do either.", _PROCESSES),
    _demand("lease:runs-out", _CONTRACT, "A task whose lease has run out is ready at once, in its old place."),
    _demand("lease:boundary", "port: claim_next", "A lease ends at its end, not a microsecond before."),
    _demand("lease:heartbeat", "port: heartbeat", "A heartbeat sets the lease to end a lease's length from now."),
    _demand("lease:late-heartbeat", "port: heartbeat", "That is possible after it ran out, while nobody has claimed."),
    _demand("lease:late-complete", "port: complete", "So is completing and releasing: the fence is still current."),
    _demand("lease:clock-back", "case: clock-back", "A clock that jumps back gives no live lease away."),
    _demand("lease:clock-back:ends", "case: clock-back", "Such a lease ends one lease's length after the first look."),
    _demand("lease:clock-skew", "port: Ledger", "Callers whose times cross do not change each other's leases."),
    _demand("fence:stale", _CONTRACT, "Without the current fence, heartbeat, complete and release are refused."),
    _demand(
        "fence:message", "case: lease-paused-holder", "The refusal says who holds the task, until when, what to do."
    ),
    _demand("fence:paused-holder", "case: lease-paused-holder", "The second holder's result stands."),
    _demand("fence:not-claimed", "port: complete", "A task that is released or completed is refused as well."),
    _demand("release:pool", "port: release", "A released task is claimed again, with its handoff and a higher fence."),
    _demand("complete:state", "port: complete", "A completed task keeps its handoff and has no lease."),
    _demand("handoff:stays", "port: Task", "A holder who leaves no handoff leaves the earlier one in place."),
    _demand("relabel:state", "port: relabel", "A new label counts at once, and the holder keeps the task."),
    _demand("get:shown", "port: get", "A task is shown as it is at the time that is asked for."),
    _demand("tasks:listing", "port: tasks", "A listing is by id, behind `after`, as long as asked, and complete."),
    _demand("tasks:filters", "port: tasks", "Status at the time asked for, origin, domain and label all narrow it."),
    _demand("outbox:events", "port: Ledger", "Each change leaves one event with what it takes to make the task again."),
    _demand("outbox:refused", "port: Ledger", "A call that is refused leaves no event."),
    _demand("outbox:order", "port: outgoing", "Events go out oldest first, numbered upward within the domain."),
    _demand("outbox:relayed", "port: relayed", "What is relayed leaves the outbox, and only that."),
    _demand(
        "outbox:numbers", "port: Outgoing", "A number is never given twice, so that a late `relayed` takes nothing."
    ),
    _demand("outbox:domains", "port: outgoing", "Each domain has an outbox and a watermark of its own."),
    _demand("outbox:durable", "port: Ledger", "The outbox and the tasks are there after reopening."),
    _demand("relay:exactly-once", _CONTRACT, "After a crash between append and relayed, each event is logged once."),
    _demand("relay:concurrent", _CONTRACT, "Changes by eight threads reach the log once and in each task's order."),
    _demand("watermark:grows", "port: watermark", "The watermark is 0 at first and never goes back."),
    _demand("apply:other-kinds", "port: apply", "Events that are no task's are passed over, and followed."),
    _demand("apply:held", "port: apply", "An event that is held already changes nothing and leaves the outbox."),
    _demand("apply:lost", "port: Ledger", "What the ledger lost and the log has comes back; work goes on from there."),
    _demand("apply:sends-nothing", "port: apply", "What came from the log is not sent there again."),
    _demand(
        "apply:gap", "errors: corruption", "An event that does not follow is refused, and nothing is changed by it."
    ),
    _demand("apply:diverged", "errors: corruption", "A log that tells of another transition is not passed over."),
    _demand("apply:leases", "port: apply", "A lease that came from the log is held, runs out and heeds the clock."),
    _demand("rebuild:events", _CONTRACT, "From the events alone the tasks are exactly the same."),
    _demand("rebuild:domain", "port: rebuild", "Only the rebuilt domain is replaced."),
    _demand("rebuild:atomic", "port: rebuild", "Nobody sees, or claims from, half a rebuild."),
    _demand("rebuild:outbox", "port: rebuild", "What follows from the log and is not in it stays, and is carried."),
    _demand("rebuild:set-back", "port: rebuild", "A log that was set back is followed from its first event."),
    _demand("rebuild:gap", "errors: corruption", "A log that does not follow is refused, and nothing is changed."),
    _demand("model:reference", "contract 1", "Whatever is done, the backend answers as the reference does."),
    _demand("threads:foreign", "port: Ledger", "An instance serves threads that did not open it."),
    _demand("instances:shared", "port: Ledger", "A second instance sees each change at once."),
    _demand("close:idempotent", "port: close", "Closing twice is closing once; a closed ledger is unavailable."),
    _demand("shape:signatures", "port: Ledger", "Every method has the port's name and parameters."),
]
