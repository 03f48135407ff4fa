"""Checking a domain's record against its log: files, the versions behind them, and what an entry says of itself."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from amem_core.domain.labels import Status
from amem_core.domain.results import Finding
from amem_core.errors import CorruptionError, FormatError, UnavailableError
from amem_core.services import tombstones
from amem_core.services.receipts import receipt_of
from amem_core.services.surveying import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from amem_core.domain.entries import Entry
    from amem_core.runtime import Runtime
    from amem_core.services.surveying import Subject, Survey

_RESTORE = "restore it from a copy"
_TAKE_IN = "amem reindex takes it in as a version by the owner; or put back what was there"
_HELD = frozenset({Verdict.level, Verdict.edited, Verdict.displaced})


class _Told(NamedTuple):
    """What a finding says, apart from where it was found."""

    rule: str
    state: str
    detail: str
    remedy: str


def file_finding(survey: Survey, subject: Subject) -> Finding | None:
    """Return what is wrong with the file of an entry, None for nothing."""
    if subject.verdict is Verdict.level:
        return None
    if subject.verdict in {Verdict.broken, Verdict.unreadable}:
        return _fault(survey, subject)
    told = _told_of_file(subject, damaged=survey.told.breach is not None)
    return Finding(
        domain=survey.domain,
        rule=told.rule,
        state=told.state,
        detail=told.detail,
        id=subject.id,
        path=_path(survey, subject.id),
        remedy=told.remedy,
    )


def _told_of_file(subject: Subject, *, damaged: bool) -> _Told:
    account = subject.account
    logged = 0 if account.last is None else account.last.version
    if damaged and subject.verdict in {Verdict.made, Verdict.edited, Verdict.displaced}:
        detail = "the log does not name these bytes, and may have lost them where it is damaged"
        return _Told("file-unlogged", "warning", detail, "restore the log from a copy")
    if subject.verdict is Verdict.made:
        return _Told("file-unlogged", "warning", "somebody made this file: the log knows nothing of it", _TAKE_IN)
    if subject.verdict is Verdict.edited:
        detail = f"its bytes are not those that the log names as version {logged}"
        return _Told("file-edited", "alarm", detail, _TAKE_IN)
    if subject.verdict is Verdict.displaced:
        detail = f"the log names version {logged}, and the record holds {_held(subject)}"
        remedy = "restore it from a newer copy; or, to keep this text, write 'version: {}' into it and run amem reindex"
        return _Told("file-displaced", "alarm", detail, remedy.format(account.highest + 1))
    if subject.verdict is Verdict.missing:
        detail = f"the log names version {logged}, and there is no file"
        return _Told("file-missing", "alarm", detail, f"{_RESTORE}; amem erase is how an entry goes for good")
    if subject.verdict is Verdict.returned:
        detail = "it was erased, and a text was put back by hand; it is not served"
        return _Told("file-erased", "alarm", detail, "take the file out of the record")
    detail = f"version {logged} was cut short, or is being written right now"
    remedy = "any write or search completes it; an erasure is completed by amem erase"
    return _Told("write-unfinished", "warning", detail, remedy)


def version_findings(survey: Survey, subject: Subject) -> tuple[int, list[Finding]]:
    """Return how many versions are kept behind the current one, and what is wrong with them.

    Versions that should be there and are not come last.
    """
    kept: set[int] = set()
    found: list[Finding] = []
    try:
        for version in survey.earlier(subject):
            kept.add(version.number)
            finding = _version_finding(survey, subject, version.number, version.digest)
            if finding is not None:
                found.append(finding)
    except UnavailableError as exc:
        remedy = exc.hint or "make it readable"
        found.append(_version(survey, subject.id, None, _Told("version-unreadable", "alarm", str(exc), remedy)))
        return len(kept), found
    if subject.verdict is Verdict.missing and kept:
        numbers = ", ".join(map(str, sorted(kept)))
        detail = f"versions {numbers} are kept behind a current one that is not there"
        found.append(_version(survey, subject.id, None, _Told("history-orphaned", "alarm", detail, _RESTORE)))
    if subject.verdict in _HELD:
        held = None if subject.entry is None else subject.entry.version
        for number in subject.account.lasting():
            if number not in kept and number != held:
                detail = f"the log names version {number}, and the record does not hold it"
                found.append(_version(survey, subject.id, number, _Told("version-missing", "alarm", detail, _RESTORE)))
    return len(kept), found


def broken_version(survey: Survey, id: str, fault: FormatError) -> Finding:
    """Return what is told of an earlier version that cannot be parsed."""
    number, line = fault.context.get("number"), fault.context.get("line")
    return Finding(
        domain=survey.domain,
        rule="version-broken",
        state="warning",
        detail=str(fault),
        id=id,
        path=_path(survey, id, number if isinstance(number, int) else None),
        line=line if isinstance(line, int) else None,
        remedy=fault.hint,
    )


def staged_findings(survey: Survey) -> Iterator[Finding]:
    """Yield what is durable and not served: a write that was cut short."""
    staged = survey.runtime.store.staged(survey.domain)
    if staged:
        yield Finding(
            domain=survey.domain,
            rule="staging-left",
            state="warning",
            detail=f"{len(staged)} versions are staged and not published: writes under way, or cut short",
            remedy="any write completes them or takes them away",
        )


class Care:
    """What an entry wants of a person: reviews that are due, and sources that changed since."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._seen: tuple[str, float | str] = ("", 0.0)

    def findings(self, entry: Entry) -> Iterator[Finding]:
        """Yield what an active entry wants. Looks at the files that its sources name."""
        if entry.status is not Status.active:
            return
        if entry.review_by is not None and entry.review_by <= self._survey.now.date():
            detail = f"it was to be reviewed by {entry.review_by.isoformat()}"
            yield self._finding(entry, "review-due", detail, "check it; then write it anew, or reject it")
        for source in entry.source:
            path = _file_of(source)
            if path is not None:
                yield from self._changed(entry, path)

    def _changed(self, entry: Entry, path: str) -> Iterator[Finding]:
        found = self._modified(path)
        if isinstance(found, str):
            yield self._finding(
                entry, "source-gone", f"its source {path} {found}", "look for it, or write the entry anew"
            )
        elif datetime.fromtimestamp(found, UTC) > entry.updated:
            detail = f"its source {path} was changed after it was written"
            yield self._finding(
                entry, "source-changed", detail, "read it again; amem ingest does that for what it made"
            )

    def _modified(self, path: str) -> float | str:
        """Return when a file was changed, in seconds since 1970, or why that cannot be told. The sections of a file follow each other."""
        if self._seen[0] != path:
            try:
                self._seen = (path, os.stat(path).st_mtime)
            except FileNotFoundError:
                self._seen = (path, "is not there any more")
            except (OSError, ValueError) as exc:
                self._seen = (path, f"cannot be looked at: {getattr(exc, 'strerror', None) or exc}")
        return self._seen[1]

    def _finding(self, entry: Entry, rule: str, detail: str, remedy: str) -> Finding:
        return Finding(domain=entry.domain, rule=rule, state="warning", detail=detail, id=entry.id, remedy=remedy)


def rejection_findings(runtime: Runtime, entry: Entry) -> Iterator[Finding]:
    """Yield that an entry's rejection is not held to by the tombstones of its value."""
    if not entry.rejected or entry.status is Status.erased:
        return
    lifted = bool(entry.rejected[-1].get("lifted"))
    # What was written after a lifting was never rejected, and no tombstone is of it.
    if not all(
        lifted if item is None else item["cause"] == "erased" or bool(item["lifted"]) == lifted
        for item in _items_of(runtime, entry.domain, tombstones.keys_of(entry), entry.id)
    ):
        yield Finding(
            domain=entry.domain,
            rule="tombstone-missing",
            state="alarm",
            detail="the tombstones do not say what it says of its rejection, so that its value could be stated again",
            id=entry.id,
            remedy="amem fsck --repair makes them again",
        )


def mark_findings(runtime: Runtime, domain: str) -> Iterator[Finding]:
    """Yield what is wrong with the receipts and the tombstones of a domain."""
    for id, _ in runtime.store.marks(domain, "erasures"):
        try:
            receipt = receipt_of(runtime, domain, id)
        except CorruptionError as exc:
            path = f"record/{domain}/.erasures/{id}.yaml"
            yield _mark(domain, "receipt-broken", "alarm", str(exc), exc.hint, id=id, path=path)
            continue
        if receipt is not None:
            yield from _receipt_findings(runtime, domain, receipt)
    for key, data in runtime.store.marks(domain, tombstones.KIND):
        try:
            tombstones.parsed(domain, key, data)
        except CorruptionError as exc:
            path = f"record/{domain}/.tombstones/{key}.yaml"
            yield _mark(domain, "tombstone-broken", "alarm", str(exc), exc.hint, path=path)


def _receipt_findings(runtime: Runtime, domain: str, receipt: Mapping[str, Any]) -> Iterator[Finding]:
    id = receipt["id"]
    again = f"amem erase {id} --reason {receipt['reason']} finishes it"
    if not receipt["finished"]:
        yield _mark(domain, "erasure-unfinished", "alarm", "its erasure was begun and has not finished", again, id=id)
        return
    if not receipt.get("index_clean", True):
        detail = "it is erased, and the index's file may still hold its text: somebody had the index open"
        yield _mark(domain, "erasure-unclean", "warning", detail, again, id=id)
    items = _items_of(runtime, domain, tuple(receipt.get("values", ())), id)
    if not all(item is not None for item in items):
        detail = "the tombstones do not hold what was erased, so that its value could be stated again"
        yield _mark(domain, "tombstone-missing", "alarm", detail, "amem fsck --repair makes them again", id=id)


def _items_of(runtime: Runtime, domain: str, keys: tuple[str, ...], id: str) -> Iterator[Mapping[str, Any] | None]:
    """Yield what the tombstone of each key says of ``id``, None where it says nothing or cannot be read."""
    marks = runtime.store.marks_of(domain, tombstones.KIND, keys)
    for key in keys:
        try:
            items: list[dict[str, Any]] = tombstones.parsed(domain, key, marks[key])["items"] if key in marks else []
        except CorruptionError:
            items = []
        yield next((item for item in items if item["id"] == id), None)


def _fault(survey: Survey, subject: Subject) -> Finding:
    fault = subject.fault
    line = None if fault is None else fault.context.get("line")
    known = subject.account.last is not None
    broken = subject.verdict is Verdict.broken
    return Finding(
        domain=survey.domain,
        rule="file-broken" if broken else "file-unreadable",
        # What nobody but the person who made it has ever seen is no loss.
        state="alarm" if known or not broken else "warning",
        detail=str(fault),
        id=subject.id,
        path=_path(survey, subject.id),
        line=line if isinstance(line, int) else None,
        remedy=(fault.hint if fault is not None else "") or "mend it, or make it readable",
    )


def _version_finding(survey: Survey, subject: Subject, number: int, digest: str) -> Finding | None:
    stands = subject.account.stands(number, digest)
    if stands is False:
        detail = f"the bytes of version {number} are not those that the log names"
        return _version(survey, subject.id, number, _Told("version-differs", "alarm", detail, _RESTORE))
    if stands is None and subject.verdict in _HELD:
        detail = f"the log knows nothing of version {number}"
        remedy = "take the file away if nobody misses it"
        return _version(survey, subject.id, number, _Told("version-unlogged", "warning", detail, remedy))
    return None


def _version(survey: Survey, id: str, number: int | None, told: _Told) -> Finding:
    return Finding(
        domain=survey.domain,
        rule=told.rule,
        state=told.state,
        detail=told.detail,
        id=id,
        path=None if number is None else _path(survey, id, number),
        remedy=told.remedy,
    )


def _mark(
    domain: str, rule: str, state: str, detail: str, remedy: str, *, id: str | None = None, path: str | None = None
) -> Finding:
    return Finding(domain=domain, rule=rule, state=state, detail=detail, id=id, path=path, remedy=remedy)


def _path(survey: Survey, id: str, number: int | None = None) -> str:
    directory = f"record/{survey.domain}"
    return f"{directory}/{id}.md" if number is None else f"{directory}/.history/{id}/{number}.md"


def _held(subject: Subject) -> str:
    named = next((each for each in subject.account.named if each.digest == subject.digest), None)
    return "an older one" if named is None else f"version {named.version}"


def _file_of(source: str) -> str | None:
    """Return the path of a ``file:`` source, None for others and for a path that nobody can tell where it begins."""
    kind, _, rest = source.partition(":")
    if kind.lower() != "file":
        return None
    path = rest.partition("#")[0]
    if path.startswith("//"):
        from urllib.parse import unquote

        host, _, path = path[2:].partition("/")
        if host not in {"", "localhost"}:
            return None
        path = "/" + unquote(path)
    return path if os.path.isabs(path) else None
