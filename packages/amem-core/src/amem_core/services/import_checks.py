"""What a bundle is held to before the first of it is written: its marks, its links, and what is here already."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from amem_core.domain.labels import Label
from amem_core.errors import AmemError, ConflictError, InvalidError
from amem_core.services import travelling
from amem_core.services.committing import ABANDONED, IMPORTED
from amem_core.services.erase import receipts
from amem_core.services.exporting import landing
from amem_core.services.import_links import Links
from amem_core.services.reach import holds
from amem_core.services.tombstones import refuse_rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from amem_core.domain.entries import Entry
    from amem_core.format.bundle import ManifestEntry, MarksFile
    from amem_core.runtime import Runtime
    from amem_core.services.arriving import Arrival

BEGUN = "import.begun"
FINISHED = "import.finished"
_MOST_REFUSED = 5
_MOST_NOTICES = 20
_NOTHING = "nothing was imported"
_FOREIGN = f"no amem wrote this bundle; {_NOTHING}"


@dataclass
class Findings:
    """What the checks of a bundle came to when nothing was refused.

    ``checkpoints`` are what had been read of the manifest behind each batch. ``taken_up`` says that an
    import of this bundle was cut short, and ``passed_over`` which entries had landed by then.
    """

    checkpoints: list[str] = field(default_factory=list[str])
    taken_up: bool = False
    passed_over: set[str] = field(default_factory=set[str])
    notices: tuple[str, ...] = ()


class Checks:
    """The checks of one bundle. What is refused is collected, so that one answer names more than the first."""

    def __init__(self, arrival: Arrival, progress: Callable[[str, int], None] | None) -> None:
        self._arrival = arrival
        self._runtime = arrival.session.runtime
        self._into = arrival.into
        self._progress = progress
        self._refused: list[AmemError] = []
        self._refusals = 0
        # In their order, each once.
        self._notices: dict[str, None] = {}
        self._links = Links()
        self._gone = receipts(arrival.session, self._into)
        self._removed = {each["digest"]: id for id, receipt in self._gone.items() for each in receipt["versions"]}
        self._everywhere = sorted({self._into, *self._runtime.store.domains()})
        self._whole: list[MarksFile] = []
        self._before: _Before | None = None
        self._passed: set[str] = set()

    def run(self) -> Findings:
        """Check everything.

        Raises:
            InvalidError: the bundle breaks a rule; the first of its faults are named.
            ConflictError: something in it may not come in here; the first of that is named.
        """
        self._whole = [file for file in self._arrival.manifest.head.marks if self._is_whole(file)]
        checkpoints: list[str] = []
        checked = 0
        for batch in self._arrival.batches(self._refuse):
            self._check_batch(batch)
            checkpoints.append(self._arrival.manifest.so_far)
            checked += len(batch)
            if self._progress is not None:
                self._progress("checked", checked)
        for file in self._whole:
            self._check_marks(file)
        self._check_unlisted()
        self._check_links()
        self._raise()
        taken_up = self._before is not None and self._before.landed is not None
        return Findings(checkpoints, taken_up, self._passed, self._told())

    # -- entries ----------------------------------------------------------------------------------

    def _check_batch(self, batch: list[tuple[ManifestEntry, Entry]]) -> None:
        """Refuse what is here, what belongs to another domain, and what was erased or rejected here."""
        arriving: list[Entry] = []
        for line, own in batch:
            self._links.add(own)
            entry = landing(own, self._into)
            if not self._is_here(line, entry):
                arriving.append(entry)
        try:
            refuse_rejected(self._runtime, self._into, arriving)
        except ConflictError:
            for entry in arriving:
                self._check_stated(entry)

    def _is_here(self, line: ManifestEntry, entry: Entry) -> bool:
        """Return whether the entry is here or was: it has landed before, or is refused."""
        erased = line.id if line.id in self._gone else self._removed.get(line.digest)
        found = next((name for name in self._everywhere if holds(self._runtime, name, line.id)), None)
        if erased is None and found is None:
            return False
        if self._earlier().brought(entry):
            self._passed.add(entry.id)
        elif erased is not None:
            message = f"{line.id} was erased here (receipt of {erased}) and does not come back"
            self._refuse(ConflictError(message, hint=f"take it out of the bundle at its origin; {_NOTHING}"))
        elif found == self._into:
            message = f"{line.id} is in {self._into} already"
            self._refuse(ConflictError(message, hint=f"the same entry is not imported twice; {_NOTHING}"))
        else:
            message = f"the id {line.id} is in use elsewhere in this record"
            self._refuse(ConflictError(message, hint=f"an id in use is never taken over; {_NOTHING}"))
        return True

    def _check_stated(self, entry: Entry) -> None:
        earlier = self._earlier()
        try:
            refuse_rejected(
                self._runtime,
                self._into,
                [entry],
                apart_from=frozenset[str]() if earlier.landed is None else earlier,
            )
        except ConflictError as exc:
            self._refuse(exc)

    def _earlier(self) -> _Before:
        """Return what an earlier import of this bundle came to. It reads the log, so it is asked for when it matters."""
        if self._before is None:
            self._before = _Before(self._arrival, self._whole)
        return self._before

    # -- marks ------------------------------------------------------------------------------------

    def _is_whole(self, file: MarksFile) -> bool:
        try:
            if self._arrival.bundle.digest(file.path) == file.digest:
                return True
        except InvalidError as exc:
            self._refuse(exc)
            return False
        message = f"{file.path} does not have the digest that the manifest gives: it was changed after the export"
        self._refuse(InvalidError(message, hint=f"export it again; {_NOTHING}"))
        return False

    def _check_marks(self, file: MarksFile) -> None:
        count, highest = 0, Label.public
        try:
            for mark in self._arrival.marks(file):
                count += 1
                highest = max(highest, Label.parse(mark["label"]))
                self._check_mark(file.kind, mark)
        except InvalidError as exc:
            self._refuse(exc)
            return
        if (count, highest) != (file.count, file.classification):
            stated = f"the manifest says {file.count} up to {file.classification}"
            message = f"{file.path} has {count} lines up to {highest}, and {stated}"
            self._refuse(InvalidError(message, hint=_FOREIGN))

    def _check_mark(self, kind: str, mark: Mapping[str, Any]) -> None:
        labels, session = self._arrival.manifest.labels, self._arrival.session
        own = labels.get(mark["id"])
        if kind == "promotions":
            if own is None or own is not Label.parse(mark["label"]):
                message = f"the promotion of {mark['id']} is {mark['label']}, and its entry is {own or 'not there'}"
                self._refuse(InvalidError(message, hint=_FOREIGN))
        elif kind == "tombstones":
            self._tell(travelling.receive_tombstone(session, self._into, mark, save=False))
        elif own is not None:
            message = f"{mark['id']} is in the bundle and on a receipt in it"
            self._refuse(InvalidError(message, hint=_FOREIGN))
        else:
            self._tell(travelling.receive_receipt(session, self._into, mark, origin="", save=False))

    def _check_unlisted(self) -> None:
        from amem_core.format.bundle import KINDS

        listed = {file.kind for file in self._arrival.manifest.head.marks}
        for kind in KINDS:
            if kind not in listed and self._arrival.bundle.has(f"{kind}.yaml"):
                message = f"{kind}.yaml lies in the bundle and the manifest does not list it"
                self._refuse(InvalidError(message, hint=f"export it again; {_NOTHING}"))

    # -- links ------------------------------------------------------------------------------------

    def _check_links(self) -> None:
        labels = self._arrival.manifest.labels
        for ring in self._links.cycles(labels, self._runtime, self._into):
            message = f"these supersede each other in a ring: {' by '.join([*ring, ring[0]])}"
            self._refuse(InvalidError(message, hint=f"mend the chain where the bundle comes from; {_NOTHING}"))
        self._tell(
            f"{source} leads to {target}, which is neither in the bundle nor here"
            for source, target in self._links.dangling(labels, self._runtime, self._into)
            if target not in self._gone
        )

    # -- what is said -----------------------------------------------------------------------------

    def _refuse(self, exc: AmemError) -> None:
        self._refusals += 1
        if len(self._refused) < _MOST_REFUSED:
            self._refused.append(exc)

    def _raise(self) -> None:
        if not self._refused:
            return
        first = next((exc for exc in self._refused if isinstance(exc, InvalidError)), self._refused[0])
        if self._refusals == 1:
            raise first
        more = self._refusals - len(self._refused)
        named = "; ".join([*map(str, self._refused), *([f"and {more} more"] if more else [])])
        message = f"{self._refusals} things in the bundle are refused: {named}"
        hint = first.hint if _NOTHING in first.hint else f"{first.hint}; {_NOTHING}"
        raise type(first)(message, hint=hint) from first

    def _tell(self, notices: Iterable[str]) -> None:
        self._notices.update(dict.fromkeys(notices))

    def _told(self) -> tuple[str, ...]:
        told = list(self._notices)
        more = len(told) - _MOST_NOTICES
        return tuple(told[:_MOST_NOTICES] + ([f"and {more} more of the same kinds"] if more > 0 else []))


class _Before:
    """What an import of this very bundle brought before it was cut short, and, as a container, the ids of that.

    ``landed`` are the digests of its entries by id, None when no import of it is unfinished.
    """

    def __init__(self, arrival: Arrival, marks: list[MarksFile]) -> None:
        self._arrival = arrival
        self._marks = marks
        self._runtime: Runtime = arrival.session.runtime
        self.landed: dict[str, str] | None = None
        for event in self._runtime.log.read(arrival.into):
            own = event.subject == arrival.manifest.digest
            if event.kind == BEGUN and own and self.landed is None:
                self.landed = {}
            elif event.kind == FINISHED and own:
                self.landed = None
            elif self.landed is not None and event.kind == IMPORTED:
                self.landed[event.subject] = event.data["digest"]
            elif self.landed is not None and event.kind == ABANDONED:
                self.landed.pop(event.subject, None)

    def brought(self, entry: Entry) -> bool:
        """Return whether exactly this entry has landed, whatever has become of it since."""
        from amem_core.format.entry import digest, render

        return self.landed is not None and self.landed.get(entry.id) == digest(render(entry))

    def __contains__(self, id: object) -> bool:
        """Return whether what ``id`` closes was closed by this bundle and not here since."""
        from amem_core.format.entry import digest

        if self.landed is None or not isinstance(id, str):
            return False
        held = holds(self._runtime, self._arrival.into, id)
        if id not in self.landed:
            return not held and id in self._closing
        return held and digest(self._runtime.store.read(self._arrival.into, id)) == self.landed[id]

    @cached_property
    def _closing(self) -> set[str]:
        files = [file for file in self._marks if file.kind != "promotions"]
        return {mark["id"] for file in files for mark in self._arrival.marks(file)}
