"""The look that every read begins with: is anything of this domain left unfinished?

It stands by itself because a search needs no more of the machinery of writes than this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.errors import CorruptionError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amem_core.runtime import Runtime


def look(runtime: Runtime, domain: str) -> None:
    """Make sure, once per process, that no unfinished write of ``domain`` is served half and that the index has followed.

    Costs two look-ups when all is well: an index that has followed the whole log has all that was
    logged, and what was staged and never logged is nobody's business but the next writer's. Another
    process that is writing right now settles its own. Where the log is damaged, reads go on with what
    the index has, and ``alarms_of`` says so; no write does.

    Raises:
        UnavailableError: the index knows nothing of the domain and somebody else is rebuilding it.
        CorruptionError: the index has followed more events than the log holds, or knows nothing of the
            domain and cannot follow a log that is damaged.
    """
    if domain in runtime.settled or domain in runtime.followed:
        return
    # In this order, so that a write that ends in between makes the log the longer one.
    mark = runtime.index.watermark(domain)
    try:
        head = runtime.log.head(domain)
        if mark < head and not _settled(runtime, domain, mark):
            return
    except CorruptionError as exc:
        _go_on(runtime, domain, mark, exc)
        return
    if mark > head:
        raise log_too_short(domain, "index", mark, head)
    if runtime.alarms:
        runtime.alarms.pop(domain, None)
    runtime.followed.add(domain)


def alarms_of(runtime: Runtime, domains: Iterable[str]) -> list[str]:
    """Return what a reader must be told of the logs of these domains, nothing when all is well."""
    return [runtime.alarms[domain] for domain in sorted(domains) if domain in runtime.alarms] if runtime.alarms else []


def _settled(runtime: Runtime, domain: str, mark: int) -> bool:
    """Complete what a crash cut short, and say whether that was possible now: another writer may be at work."""
    from amem_core.services.committing import settle

    try:
        with runtime.log.writer(domain, wait=0) as writer:
            settle(runtime, domain, writer)
    except UnavailableError:
        if mark == 0:
            raise
        return False
    return True


def _go_on(runtime: Runtime, domain: str, mark: int, exc: CorruptionError) -> None:
    """Note that the domain is read from an index that cannot follow, unless there is nothing in it to read.

    Raises:
        CorruptionError: the index knows nothing of the domain.
    """
    if mark == 0:
        from amem_core.domain.labels import Label
        from amem_core.domain.queries import Conditions, ReadFilter

        everything = ReadFilter({domain: Label.restricted})
        if not runtime.index.select(everything, Conditions(statuses=()), limit=1):
            raise exc
    line = exc.context.get("line")
    place = f" at line {line}" if isinstance(line, int) else ""
    runtime.alarms[domain] = (
        f"the log of {domain} is damaged{place}: what was written last may be missing here, and nothing can be"
        " written until it is mended; amem log verify says where"
    )


def log_too_short(domain: str, what: str, mark: int, head: int) -> CorruptionError:
    """Return the alarm for a log that ends before what ``what`` (index or ledger) has followed of it."""
    message = f"the {what} has followed {mark} events of {domain}, but its log holds {head}: the log was cut short"
    return CorruptionError(message, hint="restore the log from a copy; or, if it is right, run amem reindex")
