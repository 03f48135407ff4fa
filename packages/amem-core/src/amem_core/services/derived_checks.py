"""Laying what is derived, index and ledger, beside the record and the log, id by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.domain.labels import Label
from amem_core.domain.queries import ReadFilter
from amem_core.domain.results import Finding
from amem_core.domain.task_events import apply_event, seen_at
from amem_core.errors import AmemError, CorruptionError, NotFoundError, UnavailableError
from amem_core.ports.index import Kept
from amem_core.services.accounts import named_by
from amem_core.services.surveying import Verdict, shown_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from amem_core.domain.events import Event
    from amem_core.domain.tasks import Task
    from amem_core.services.accounts import Account
    from amem_core.services.surveying import Subject, Survey

_REBUILD = "amem reindex makes it anew from the record and the log"
_PAGE = 500
# An index so far behind is not laid beside anything: it is brought up first.
_MOST_BEHIND = 10_000
_SERVED = frozenset({Verdict.level, Verdict.displaced})


class IndexBeside:
    """The index of a domain, laid beside its survey as that goes from id to id.

    Others may be writing: what seems to differ is looked at again in the end, by ``rest``.
    """

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._runtime = survey.runtime
        self._domain = survey.domain
        self._behind: set[str] = set()
        self._suspects: dict[str, Account | None] = {}
        self._first: list[Finding] = []
        self._listed = self._begin()
        self._next = self._pull()

    def beside(self, subject: Subject) -> None:
        """Compare one entry; subjects come by id."""
        self._pass_over(subject.id)
        held: list[Kept] = []
        while self._next is not None and self._next.id == subject.id:
            held.append(self._next)
            self._next = self._pull()
        if self._fault(subject, held) is not None:
            self._suspects[subject.id] = subject.account

    def rest(self) -> Iterator[Finding]:
        """Yield what is wrong with the index, when every subject was compared."""
        self._pass_over(None)
        yield from self._first
        for id, account in self._suspects.items():
            subject = None if account is None else self._survey.judge(account)
            try:
                held = list(self._runtime.index.versions(self._domain, id))
                fault = self._fault(subject, held)
                if fault is None or id in self._behind or id in self._since_watermark():
                    continue
            except UnavailableError as exc:
                yield self._unavailable(exc)
                return
            rule = "index-differs" if subject is not None and subject.verdict in _SERVED else "index-orphaned"
            yield Finding(domain=self._domain, rule=rule, state="alarm", detail=fault, id=id, remedy=_REBUILD)

    def _begin(self) -> Iterator[Kept]:
        """Return the listing to begin with: an empty one of an index that is too far behind, or cannot be asked."""
        runtime, domain = self._runtime, self._domain
        try:
            mark = runtime.index.watermark(domain)
            if self._survey.told.breach is None:
                self._behind = set(self._not_followed(mark))
            if not self._behind:
                return runtime.index.versions(domain)
            detail = f"it has followed {mark} events of {self._survey.told.head}"
            remedy = "any write or search brings it up; else amem reindex"
            self._first.append(
                Finding(domain=domain, rule="index-behind", state="warning", detail=detail, remedy=remedy)
            )
            if mark > 0 and len(self._behind) < _MOST_BEHIND:
                return runtime.index.versions(domain)
        except UnavailableError as exc:
            self._first.append(self._unavailable(exc))
        return iter(())

    def _not_followed(self, mark: int) -> Iterator[str]:
        """Yield whose versions were logged behind ``mark``, so many that it is worth going on."""
        found = 0
        for event in self._runtime.log.read(self._domain, after=mark):
            if named_by(event) is not None:
                found += 1
                yield event.subject
            if found > _MOST_BEHIND:
                return

    def _pull(self) -> Kept | None:
        try:
            return next(self._listed, None)
        except UnavailableError as exc:
            self._first.append(self._unavailable(exc))
            self._listed = iter(())
            return None

    def _pass_over(self, id: str | None) -> None:
        """Note what the index holds below ``id``, None for all that is left: there is no such entry."""
        while self._next is not None and (id is None or self._next.id < id):
            self._suspects[self._next.id] = None
            self._next = self._pull()

    def _fault(self, subject: Subject | None, held: Sequence[Kept]) -> str | None:
        """Return what is wrong with what the index holds of one id, None for nothing."""
        if self._first and not held:
            # Not to be asked, or behind: what it lacks says nothing.
            return None
        if subject is None or subject.verdict is Verdict.missing:
            return "the index holds it, and there is no such file" if held else None
        if subject.verdict not in _SERVED or subject.entry is None:
            return None
        newest = shown_label(subject, subject.entry)
        wanted = [
            Kept(
                document.entry.id,
                document.entry.version,
                document.digest,
                document.known_from,
                max(document.entry.classification, newest),
                document.entry.status,
            )
            for document in self._survey.served(subject)
        ]
        return None if wanted == list(held) else _difference(wanted, held)

    def _since_watermark(self) -> set[str]:
        """Return what was written and is not in the index yet, when somebody is writing right now."""
        if self._survey.told.breach is not None:
            return set()
        return set(self._not_followed(self._runtime.index.watermark(self._domain)))

    def _unavailable(self, exc: AmemError) -> Finding:
        return Finding(
            domain=self._domain, rule="index-unavailable", state="alarm", detail=str(exc), remedy=exc.hint or _REBUILD
        )


def _difference(wanted: Sequence[Kept], held: Sequence[Kept]) -> str:
    """Say in what the index and the record differ, the first difference alone."""
    ours, theirs = {each.version: each for each in wanted}, {each.version: each for each in held}
    for version in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(version), theirs.get(version)
        if other is None:
            return f"the index does not hold version {version}"
        if one is None:
            return f"the index holds version {version}, which is not to be found"
        for name in Kept._fields:
            if getattr(one, name) != getattr(other, name):
                return f"the index has another {name} of version {version} than record and log"
    return "the index differs"


def ledger_findings(survey: Survey, progress: Callable[[str, int], None] | None) -> Iterator[Finding]:
    """Yield what is wrong with the ledger of a domain beside its log, task by task."""
    try:
        yield from _Ledger(survey, progress).findings()
    except UnavailableError as exc:
        yield Finding(
            domain=survey.domain,
            rule="ledger-unavailable",
            state="alarm",
            detail=str(exc),
            remedy=exc.hint or _REBUILD,
        )


class _Ledger:
    """The ledger of a domain beside its log. Tasks that are on their way between the two are passed over."""

    def __init__(self, survey: Survey, progress: Callable[[str, int], None] | None) -> None:
        self._survey = survey
        self._runtime = survey.runtime
        self._domain = survey.domain
        self._progress = progress
        self._mark = self._runtime.ledger.watermark(self._domain)
        self._waiting = {item.event.subject for item in self._runtime.ledger.outgoing(self._domain)}

    def findings(self) -> Iterator[Finding]:
        if self._waiting:
            detail = f"events of {len(self._waiting)} tasks are not in the log yet"
            yield self._finding("ledger-behind", "warning", detail, None, "any task command carries them")
        tasks = self._tasks()
        held = next(tasks, None)
        for done, (id, events) in enumerate(self._survey.told.histories(), 1):
            while held is not None and held.id < id:
                yield from self._compare(held.id, [], held)
                held = next(tasks, None)
            own = held if held is not None and held.id == id else None
            yield from self._compare(id, events, own)
            if own is not None:
                held = next(tasks, None)
            if self._progress is not None:
                self._progress(self._domain, done)
        while held is not None:
            yield from self._compare(held.id, [], held)
            held = next(tasks, None)

    def _tasks(self) -> Iterator[Task]:
        readable = ReadFilter({self._domain: Label.restricted})
        after: str | None = None
        while True:
            page = self._runtime.ledger.tasks(readable, now=self._survey.now, after=after, limit=_PAGE)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].id

    def _compare(self, id: str, events: Sequence[Event], held: Task | None) -> Iterator[Finding]:
        if id in self._waiting or (events and events[-1].seq > self._mark):
            return
        try:
            wanted = _task(events)
        except CorruptionError as exc:
            yield self._finding("ledger-unfollowable", "alarm", str(exc), id, exc.hint)
            return
        if self._same(wanted, held):
            return
        # Somebody may have moved it meanwhile: what stands now is what counts.
        later = [event for event in self._later() if event.subject == id]
        try:
            now = self._runtime.ledger.get(id, now=self._survey.now)
        except NotFoundError:
            now = None
        if later or any(item.event.subject == id for item in self._runtime.ledger.outgoing(self._domain)):
            return
        if not self._same(wanted, now):
            detail = _task_difference(wanted, now, self._survey)
            yield self._finding("ledger-differs", "alarm", detail, id, _REBUILD)

    def _same(self, wanted: Task | None, held: Task | None) -> bool:
        return held == (None if wanted is None else seen_at(wanted, self._survey.now))

    def _later(self) -> Iterator[Event]:
        return self._runtime.log.read(self._domain, after=self._survey.told.head)

    def _finding(self, rule: str, state: str, detail: str, id: str | None, remedy: str) -> Finding:
        return Finding(domain=self._domain, rule=rule, state=state, detail=detail, id=id, remedy=remedy)


def _task(events: Sequence[Event]) -> Task | None:
    task: Task | None = None
    for event in events:
        task = apply_event(task, event)
    return task


def _task_difference(wanted: Task | None, held: Task | None, survey: Survey) -> str:
    if wanted is None:
        return "the ledger holds it, and the log does not know it"
    if held is None:
        return "the log knows it, and the ledger does not hold it"
    shown = seen_at(wanted, survey.now)
    names = [name for name in type(shown).__dataclass_fields__ if getattr(shown, name) != getattr(held, name)]
    return f"the ledger has another {', '.join(names)} than its events come to"
