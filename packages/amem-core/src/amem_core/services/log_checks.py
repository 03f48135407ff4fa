"""Checking a domain's log: its sequence, its chain, its end, and the digests that it names against the record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.domain.results import Finding, LogVerified
from amem_core.errors import CorruptionError, UnavailableError
from amem_core.ports.store import Unreadable
from amem_core.services.accounts import read_log
from amem_core.services.reach import held
from amem_core.services.record_checks import file_finding, version_findings
from amem_core.services.surveying import Survey, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from amem_core.runtime import Runtime
    from amem_core.services.accounts import Told
    from amem_core.session import Session

# What the log says of bytes; the rest of what can be found in a record is fsck's.
_OF_DIGESTS = frozenset({"file-edited", "version-differs", "file-unreadable", "version-unreadable"})
_HELD = frozenset({Verdict.level, Verdict.edited, Verdict.displaced})
# What is there and cannot be read is told of: a check that leaves it out has not checked.
_COMPARED = _HELD | {Verdict.unreadable}


def verify_log(
    session: Session, *, domain: str | None, progress: Callable[[str, int], None] | None
) -> list[LogVerified]:
    """Check the log of one domain or of all; see ``Session.verify_log``."""
    names = [held(session, domain)] if domain is not None else sorted(session.readable.domains)
    answers: list[LogVerified] = []
    for name in names:
        session.decide("reindex", {"domain": name})
        answers.append(_verified(session.runtime, name, progress))
    return answers


def worst(findings: Iterable[Finding]) -> str:
    """Return the worst state that is found, ``ok`` for nothing."""
    states = {finding.state for finding in findings}
    return next((state for state in ("alarm", "warning") if state in states), "ok")


def log_findings(runtime: Runtime, told: Told) -> Iterator[Finding]:
    """Yield what is wrong with the log itself, as it was just read."""
    domain = told.domain
    if told.breach is not None:
        yield Finding(
            domain=domain,
            rule="log-damaged",
            state="alarm",
            detail=told.breach.reason,
            line=told.breach.line,
            remedy="restore the log from a copy; what stands behind the place can be read all the same",
        )
    torn = runtime.log.torn(domain)
    if torn:
        yield Finding(
            domain=domain,
            rule="log-torn",
            state="warning",
            detail=f"{torn} bytes behind the last event were being written when something stopped; nobody was told of them",
            remedy="the next writer repairs it",
        )
    for what, mark in _marks(runtime, domain):
        head = max(told.head, _head(runtime, domain))
        if mark > head:
            yield Finding(
                domain=domain,
                rule="log-cut-short",
                state="alarm",
                detail=f"the {what} has followed {mark} events, but the log holds {head}: it was cut short",
                remedy="restore the log from a copy; or, if it is right, run amem reindex",
            )


def _verified(runtime: Runtime, domain: str, progress: Callable[[str, int], None] | None) -> LogVerified:
    with read_log(runtime, domain, chained=True, progress=progress) as told:
        findings = list(log_findings(runtime, told))
        survey = Survey(runtime, told, live=True, parsing=False)
        compared = 0
        for subject in survey.subjects():
            if isinstance(subject, Unreadable) or subject.verdict not in _COMPARED:
                continue
            kept, found = version_findings(survey, subject)
            compared += kept + (subject.verdict in _HELD)
            current = file_finding(survey, subject)
            findings += [each for each in (current, *found) if each is not None and each.rule in _OF_DIGESTS]
            if progress is not None:
                progress(domain, compared)
        return LogVerified(
            domain=domain,
            state=worst(findings),
            events=told.events,
            chain=told.chain,
            compared=compared,
            torn=runtime.log.torn(domain),
            breach=told.breach,
            findings=tuple(findings),
        )


def _marks(runtime: Runtime, domain: str) -> Iterator[tuple[str, int]]:
    """Yield how far each projection has followed the log; one that cannot be asked is no witness."""
    for what in ("index", "ledger"):
        try:
            yield what, getattr(runtime, what).watermark(domain)
        except UnavailableError:
            continue


def _head(runtime: Runtime, domain: str) -> int:
    """Return the number of the last event, after the marks were read: a writer moves it first."""
    try:
        return runtime.log.head(domain)
    except CorruptionError:
        # The last line is damaged, which whoever read the log has told already.
        return 0
