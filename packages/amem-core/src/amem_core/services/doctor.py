"""``doctor``: what is configured, whether it answers, and whether its parts agree. Changes nothing."""

from __future__ import annotations

import os
import stat
from functools import partial
from typing import TYPE_CHECKING

from amem_core.domain.results import Check
from amem_core.errors import AmemError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from amem_core.domain.results import Finding, Surveyed
    from amem_core.runtime import Runtime

_PORTS = ("policy", "store", "log", "index", "ledger")
# Where each rule of fsck belongs, by the word that its name begins with.
_AREAS = {
    "log": "log",
    "file": "record",
    "version": "record",
    "history": "record",
    "write": "record",
    "staging": "record",
    "record": "record",
    "index": "index follows the log",
    "ledger": "ledger follows the log",
    "link": "links",
    "tombstone": "corrections",
    "receipt": "corrections",
    "erasure": "corrections",
    "review": "reviews and sources",
    "source": "reviews and sources",
}


def doctor(runtime: Runtime) -> list[Check]:
    """Return every finding, good and bad, in a fixed order."""
    checks: list[Check] = []
    for port in _PORTS:
        opens = _guarded(f"{port} opens", partial(_opens, runtime, port))
        checks += [opens, *(_own(runtime, port) if opens.state == "ok" else ())]
    checks.append(_guarded("grants are private", partial(_private, runtime)))
    if any(check.state == "alarm" for check in checks):
        return checks
    for domain in runtime.policy.domains():
        checks.extend(_domain(runtime, domain))
    return checks


def _guarded(name: str, check: Callable[[], tuple[str, str, str]]) -> Check:
    try:
        state, detail, remedy = check()
    except AmemError as exc:
        return Check(name=name, state="alarm", detail=str(exc), remedy=exc.hint)
    return Check(name=name, state=state, detail=detail, remedy=remedy)


def _opens(runtime: Runtime, port: str) -> tuple[str, str, str]:
    getattr(runtime, port)
    return "ok", runtime.config.key(port), ""


def _own(runtime: Runtime, port: str) -> list[Check]:
    """Return what the backend itself finds, when it offers to look: see ``amem_core.ports.checks``."""
    check = getattr(getattr(runtime, port), "check", None)
    try:
        return [] if check is None else list(check(now=runtime.clock.now()))
    except AmemError as exc:
        return [Check(name=f"{port} answers", state="alarm", detail=str(exc), remedy=exc.hint)]


def _private(runtime: Runtime) -> tuple[str, str, str]:
    path = runtime.grants
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError as exc:
        return "alarm", f"{path} cannot be read: {exc.strerror}", "give this user read permission on it"
    if os.name == "posix" and mode & 0o022:
        return "alarm", f"others than the owner may change {path}", f"chmod go-w {path}"
    return "ok", path, ""


def _domain(runtime: Runtime, domain: str) -> Iterator[Check]:
    """Yield what fsck finds in one domain, by area; an area without a finding is ok."""
    from amem_core.services.fsck import check

    try:
        surveyed, findings = check(runtime, domain)
    except AmemError as exc:
        yield Check(name=f"{domain}: record", state="alarm", detail=str(exc), remedy=exc.hint)
        return
    for area in dict.fromkeys(_AREAS.values()):
        own = [finding for finding in findings if _AREAS[finding.rule.partition("-")[0]] == area]
        if not own:
            yield Check(name=f"{domain}: {area}", state="ok", detail=_well(area, surveyed))
        for finding in own:
            yield Check(name=f"{domain}: {area}", state=finding.state, detail=_detail(finding), remedy=finding.remedy)


def _detail(finding: Finding) -> str:
    place = finding.path or finding.id or ""
    if finding.line is not None and finding.path is not None:
        place = f"{place}, line {finding.line}"
    return f"{place}: {finding.detail}" if place else finding.detail


def _well(area: str, surveyed: Surveyed) -> str:
    return {
        "log": f"{surveyed.events} events, sequence and chain whole",
        "record": f"{surveyed.entries} entries, {surveyed.versions} versions",
        "ledger follows the log": f"whole, {surveyed.tasks} tasks",
        "links": "all lead somewhere, both ways",
        "reviews and sources": "none is due, none has changed",
    }.get(area, "whole")
