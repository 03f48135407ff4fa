"""What ``fsck --repair`` does: it completes what was cut short and rebuilds what is derived. It deletes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.domain.labels import Status
from amem_core.errors import FormatError, NotFoundError
from amem_core.services import committing
from amem_core.services.committing import Change
from amem_core.services.link_checks import Links
from amem_core.services.reindex import rebuild
from amem_core.services.writing import SUPERSEDED, ending

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from amem_core.domain.results import Finding, Materialized
    from amem_core.ports.log import LogWriter
    from amem_core.services.committing import Current
    from amem_core.session import Session

LINKED = "entry.linked"
# What a rebuild from record and log mends, in that it makes it anew or takes it in.
_REBUILT = frozenset(
    {
        "file-edited",
        "file-unlogged",
        "index-differs",
        "index-orphaned",
        "index-unavailable",
        "ledger-differs",
        "ledger-unavailable",
        "log-cut-short",
        "tombstone-missing",
        "tombstone-broken",
    }
)
# What becoming the domain's writer, and settling what it finds, mends.
_SETTLED = frozenset({"log-torn", "write-unfinished", "staging-left", "index-behind", "ledger-behind"})


def mend(
    session: Session, domain: str, findings: Sequence[Finding], progress: Callable[[str, int], None] | None
) -> list[str]:
    """Complete and rebuild what ``findings`` say; return what was done, a sentence for each thing.

    Behind damage to the log nothing is done: what it lost may be what seems to be wrong.
    """
    rules = {finding.rule for finding in findings}
    if rules & {"log-damaged", "log-unavailable", "record-unavailable"}:
        return []
    done: list[str] = []
    runtime = session.runtime
    with runtime.log.writer(domain) as writer:
        if "log-torn" in rules:
            done.append(f"{domain}: repaired the torn end of the log")
        if rules & _REBUILT:
            done += _rebuilt(rebuild(runtime, domain, writer, progress))
        elif rules & _SETTLED:
            done += _settle(session, domain, writer, rules)
        for finding in findings:
            if finding.rule == "link-one-way" and finding.id is not None and finding.other is not None:
                done += _link(session, domain, writer, finding.id, finding.other)
    return done


def _settle(session: Session, domain: str, writer: LogWriter, rules: set[str]) -> list[str]:
    from amem_core.services import relaying

    runtime = session.runtime
    runtime.settled.discard(domain)
    committing.settle(runtime, domain, writer)
    relaying.carry(runtime, domain, writer)
    what = ", ".join(sorted(rules & _SETTLED - {"log-torn"}))
    return [f"{domain}: completed or closed what was cut short ({what})"] if what else []


def _rebuilt(done: Materialized) -> list[str]:
    told = [f"{done.domain}: rebuilt index and ledger ({done.entries} entries, {done.tasks} tasks)"]
    return told + [f"{done.domain}: took {one.id} in as version {one.version} by the owner" for one in done.adopted]


def _link(session: Session, domain: str, writer: LogWriter, id: str, other: str) -> list[str]:
    """Write a version of ``id`` that returns the link of ``other``, unless one of them has changed since."""
    runtime = session.runtime
    try:
        own, theirs = committing.load(runtime, domain, id), committing.load(runtime, domain, other)
    except (NotFoundError, FormatError):
        return []
    change = _returned(session, domain, own, theirs)
    if change is None:
        return []
    committing.settle(runtime, domain, writer)
    committing.commit(runtime, domain, writer, [change], actor=session.author)
    return [f"{domain}: wrote version {change.entry.version} of {id}, which returns the link of {other}"]


def _returned(session: Session, domain: str, own: Current, theirs: Current) -> Change | None:
    entry, other = own.entry, theirs.entry
    now = session.runtime.clock.now()
    if Status.erased in {entry.status, other.status}:
        return None
    if entry.id in other.supersedes and entry.superseded_by is None:
        if Links(session.runtime, domain).leads(other.id, entry.id):
            return None
        status = Status.superseded if entry.status is Status.active else entry.status
        until = ending(entry, other)
        fields = {"superseded_by": other.id, "status": status, "valid_until": until}
        return Change(committing.next_version(own, now, **fields), SUPERSEDED, own.digest)
    if other.superseded_by == entry.id and other.id not in entry.supersedes:
        newer = committing.next_version(own, now, supersedes=(*entry.supersedes, other.id))
        return Change(newer, LINKED, own.digest)
    return None
