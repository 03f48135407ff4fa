"""``doctor``: what is configured, whether it answers, and whether its parts agree. Changes nothing."""

from __future__ import annotations

import os
import stat
from functools import partial
from typing import TYPE_CHECKING

from amem_core.domain.labels import Label
from amem_core.domain.results import Check
from amem_core.errors import AmemError, CorruptionError, FormatError
from amem_core.ports.store import Unreadable
from amem_core.services.looking import log_too_short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from amem_core.runtime import Runtime

_PORTS = ("policy", "store", "log", "index", "ledger")


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
        checks.append(_guarded(f"{domain}: log", partial(_log, runtime, domain)))
        checks.extend(_record(runtime, domain))
        checks.append(_guarded(f"{domain}: index follows the log", partial(_index, runtime, domain)))
        checks.append(_guarded(f"{domain}: ledger follows the log", partial(_ledger, runtime, domain)))
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
    if os.name == "posix" and stat.S_IMODE(os.stat(path).st_mode) & 0o022:
        return "alarm", f"others than the owner may change {path}", f"chmod go-w {path}"
    return "ok", path, ""


def _log(runtime: Runtime, domain: str) -> tuple[str, str, str]:
    count = sum(1 for _ in runtime.log.read(domain))
    if count != runtime.log.head(domain):
        message = f"the log of {domain} ends at {runtime.log.head(domain)} but holds {count} events"
        raise CorruptionError(message, hint="restore it from a backup")
    return "ok", f"{count} events, sequence and chain whole", ""


def _record(runtime: Runtime, domain: str) -> Iterator[Check]:
    from amem_core.format.entry import parse

    name = f"{domain}: record"
    count = 0
    try:
        for stored in runtime.store.entries(domain):
            if isinstance(stored, Unreadable):
                yield Check(
                    name=name, state="warning", detail=f"{stored.path}: {stored.reason}", remedy="mend or move it"
                )
                continue
            count += 1
            try:
                parse(
                    runtime.store.read(domain, stored.id),
                    domain=domain,
                    id=stored.id,
                    fallback_time=runtime.clock.now(),
                    fallback_label=Label.restricted,
                )
            except FormatError as exc:
                yield Check(name=name, state="warning", detail=str(exc), remedy=exc.hint)
        unfinished = len(runtime.store.staged(domain))
    except AmemError as exc:
        yield Check(name=name, state="alarm", detail=str(exc), remedy=exc.hint)
        return
    if unfinished:
        detail = f"{unfinished} writes were cut short"
        yield Check(name=name, state="warning", detail=detail, remedy="any write or search completes them")
    yield Check(name=name, state="ok", detail=f"{count} entries", remedy="")


def _index(runtime: Runtime, domain: str) -> tuple[str, str, str]:
    mark, head = runtime.index.watermark(domain), runtime.log.head(domain)
    if mark > head:
        raise log_too_short(domain, "index", mark, head)
    behind = [event for event in runtime.log.read(domain, after=mark) if event.kind.startswith("entry.")]
    if behind:
        return "warning", f"{len(behind)} events behind", "any write or search completes it; else amem reindex"
    return "ok", "whole", ""


def _ledger(runtime: Runtime, domain: str) -> tuple[str, str, str]:
    mark, head = runtime.ledger.watermark(domain), runtime.log.head(domain)
    if mark > head:
        raise log_too_short(domain, "ledger", mark, head)
    waiting = len(runtime.ledger.outgoing(domain))
    if waiting:
        return "warning", f"{waiting} events are not in the log yet", "any task command carries them"
    return "ok", "whole", ""
