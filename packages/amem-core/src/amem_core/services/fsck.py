"""``fsck``: record, log, index and ledger laid beside each other, and what ``--repair`` completes or rebuilds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.domain.results import Finding, Fsck, Surveyed
from amem_core.errors import CorruptionError, FormatError, UnavailableError
from amem_core.ports.store import Unreadable
from amem_core.services import record_checks
from amem_core.services.accounts import read_log
from amem_core.services.derived_checks import IndexBeside, ledger_findings
from amem_core.services.link_checks import Links
from amem_core.services.log_checks import log_findings, worst
from amem_core.services.reach import held
from amem_core.services.surveying import Survey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from amem_core.runtime import Runtime
    from amem_core.services.accounts import Told
    from amem_core.services.surveying import Subject
    from amem_core.session import Session

_MOST_REPAIRS = 3


def fsck(session: Session, *, domain: str | None, repair: bool, progress: Callable[[str, int], None] | None) -> Fsck:
    """Check one domain or all, and repair what can be completed or rebuilt; see ``Session.fsck``."""
    names = [held(session, domain)] if domain is not None else sorted(session.readable.domains)
    domains: list[Surveyed] = []
    findings: list[Finding] = []
    repaired: list[str] = []
    for name in names:
        session.decide("reindex", {"domain": name})
        surveyed, found = check(session.runtime, name, progress)
        # What is completed may show what is to be rebuilt.
        for _ in range(_MOST_REPAIRS if repair else 0):
            from amem_core.services.mending import mend

            done = mend(session, name, found, progress)
            if not done:
                break
            repaired += done
            surveyed, found = check(session.runtime, name, progress)
        domains.append(surveyed)
        findings += found
    return Fsck(state=worst(findings), domains=tuple(domains), findings=tuple(findings), repaired=tuple(repaired))


def check(
    runtime: Runtime, domain: str, progress: Callable[[str, int], None] | None = None
) -> tuple[Surveyed, list[Finding]]:
    """Check one domain and change nothing; return how much was looked at, and what was found.

    What cannot be reached is a finding as well: it is never taken for something that is not there.
    """
    try:
        told = read_log(runtime, domain, chained=True, progress=progress)
    except UnavailableError as exc:
        found = Finding(
            domain=domain, rule="log-unavailable", state="alarm", detail=str(exc), remedy=exc.hint or "make it readable"
        )
        return Surveyed(domain=domain, events=0, entries=0, versions=0, tasks=0), [found]
    with told:
        looking = _Look(runtime, told, progress)
        findings = list(looking.findings())
        return looking.surveyed(), findings


class _Look:
    """One look at one domain."""

    def __init__(self, runtime: Runtime, told: Told, progress: Callable[[str, int], None] | None) -> None:
        self._runtime = runtime
        self._told = told
        self._domain = told.domain
        self._progress = progress
        self._survey = Survey(runtime, told, live=True)
        self._links = Links(runtime, self._domain)
        self._care = record_checks.Care(self._survey)
        self._entries = 0
        self._versions = 0

    def surveyed(self) -> Surveyed:
        return Surveyed(
            domain=self._domain,
            events=self._told.events,
            entries=self._entries,
            versions=self._versions,
            tasks=sum(1 for _ in self._told.tasks.groups()),
        )

    def findings(self) -> Iterator[Finding]:
        yield from log_findings(self._runtime, self._told)
        index = IndexBeside(self._survey)
        try:
            yield from self._record(index)
            yield from index.rest()
            yield from record_checks.staged_findings(self._survey)
            yield from record_checks.mark_findings(self._runtime, self._domain)
        except UnavailableError as exc:
            remedy = exc.hint or "make it readable"
            yield Finding(domain=self._domain, rule="record-unavailable", state="alarm", detail=str(exc), remedy=remedy)
        if self._told.breach is None:
            yield from ledger_findings(self._survey, self._progress)

    def _record(self, index: IndexBeside) -> Iterator[Finding]:
        for subject in self._survey.subjects():
            if isinstance(subject, Unreadable):
                yield self._unreadable(subject)
                continue
            yield from self._subject(subject)
            index.beside(subject)
            if self._progress is not None:
                self._progress(self._domain, self._entries)

    def _subject(self, subject: Subject) -> Iterator[Finding]:
        damaged = self._told.breach is not None
        found = record_checks.file_finding(self._survey, subject)
        if found is not None:
            yield found
        count, findings = record_checks.version_findings(self._survey, subject)
        # A log that lost events does not know what it named.
        yield from (finding for finding in findings if not (damaged and finding.rule == "version-unlogged"))
        self._versions += count
        if subject.digest:
            self._entries += 1
            self._versions += 1
        entry = subject.entry
        if entry is not None:
            broken: list[FormatError] = []
            for _ in self._survey.served(subject, broken):
                pass
            yield from (record_checks.broken_version(self._survey, subject.id, fault) for fault in broken)
            yield from self._links.findings(entry)
            yield from self._care.findings(entry)
            try:
                yield from record_checks.rejection_findings(self._runtime, entry)
            except CorruptionError:
                # Told of with the tombstones themselves.
                return

    def _unreadable(self, found: Unreadable) -> Finding:
        return Finding(
            domain=self._domain,
            rule="file-broken",
            state="warning",
            detail=found.reason,
            path=found.path,
            remedy="mend it or move it out of the record",
        )
