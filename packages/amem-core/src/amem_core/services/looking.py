"""The look that every read begins with: is anything of this domain left unfinished?

It stands by itself because a search needs no more of the machinery of writes than this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.errors import CorruptionError, UnavailableError

if TYPE_CHECKING:
    from amem_core.runtime import Runtime


def look(runtime: Runtime, domain: str) -> None:
    """Make sure, once per process, that no unfinished write of ``domain`` is served half and that the index has followed.

    Costs two look-ups when all is well: an index that has followed the whole log has all that was
    logged, and what was staged and never logged is nobody's business but the next writer's. Another
    process that is writing right now settles its own.

    Raises:
        UnavailableError: the index knows nothing of the domain and somebody else is rebuilding it.
        CorruptionError: the index has followed more events than the log holds.
    """
    if domain in runtime.settled or domain in runtime.followed:
        return
    # In this order, so that a write that ends in between makes the log the longer one.
    mark = runtime.index.watermark(domain)
    head = runtime.log.head(domain)
    if mark > head:
        raise log_too_short(domain, "index", mark, head)
    if mark < head:
        from amem_core.services.committing import settle

        try:
            with runtime.log.writer(domain, wait=0) as writer:
                settle(runtime, domain, writer)
        except UnavailableError:
            if mark == 0:
                raise
            return
    runtime.followed.add(domain)


def log_too_short(domain: str, what: str, mark: int, head: int) -> CorruptionError:
    """Return the alarm for a log that ends before what ``what`` (index or ledger) has followed of it."""
    message = f"the {what} has followed {mark} events of {domain}, but its log holds {head}: the log was cut short"
    return CorruptionError(message, hint="restore the log from a copy; or, if it is right, run amem reindex")
