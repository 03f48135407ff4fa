"""Writing a bundle: how memory leaves.

An entry leaves in the form in which it lands, at tier raw and verified by nobody, so that what is
exported where it landed is the same bytes again. What it was promoted to goes beside it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, BinaryIO

from amem_core.domain.labels import Label, Status, Tier
from amem_core.domain.results import Exported
from amem_core.errors import ConflictError, FormatError, InvalidError, NotFoundError
from amem_core.ports.store import Unreadable
from amem_core.services import travelling
from amem_core.services.bundle_files import BundleWriting
from amem_core.services.erase import receipts
from amem_core.services.reach import domains, held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from amem_core.domain.entries import Entry
    from amem_core.format.bundle import MarksFile
    from amem_core.session import Session

# Those that are left out are named up to here.
_MOST_NAMED = 5
_EVERY = 100


@dataclass
class _Run:
    """One export under way: to where, up to which label, and what it has come to."""

    session: Session
    domain: str
    out: BundleWriting
    highest: Label
    reached: Label = Label.public
    entries: int = 0
    withheld: int = 0
    withheld_marks: int = 0
    unread: list[str] = field(default_factory=list[str])

    def may_leave(self, label: Label) -> bool:
        """Return whether what has this label leaves in this bundle."""
        return label <= self.highest and self.session.readable.allows(self.domain, label)


def export(
    session: Session,
    domain: str,
    to: str,
    *,
    max_label: Label | None,
    progress: Callable[[str, int], None] | None = None,
) -> Exported:
    """Write a bundle; see ``Session.export``. The manifest is written last: it is what makes a directory a bundle."""
    held(session, domain)
    domains(session, domain)
    asked = None if max_label is None else str(Label.parse(max_label))
    decision = session.decide("export", {"domain": domain, "max_label": asked})
    highest = Label.parse(decision.obligations["max_label"])
    with BundleWriting(os.path.abspath(to)) as out, ExitStack() as stack:
        run = _Run(session, domain, out, highest)
        lines = stack.enter_context(out.spool())
        # In this order: what is erased or rejected meanwhile shows in the entries, and what is not is refused below.
        before = receipts(session, domain).keys()
        marks = [
            _marks_file(run, "receipts", travelling.leaving_receipts(session, domain)),
            _marks_file(run, "tombstones", travelling.leaving_tombstones(session, domain)),
            _marks_file(run, "promotions", _entries(run, lines, progress)),
        ]
        _refuse_erased(run, receipts(session, domain).keys() - before)
        _manifest(run, [file for file in marks if file is not None], lines)
    session.served([run.reached])
    counts = {file.kind: file.count for file in marks if file is not None}
    return Exported(
        path=out.path,
        domain=domain,
        entries=run.entries,
        highest_label=run.reached,
        max_label=highest,
        withheld=run.withheld,
        withheld_marks=run.withheld_marks,
        receipts=counts.get("receipts", 0),
        tombstones=counts.get("tombstones", 0),
        promotions=counts.get("promotions", 0),
        notices=_unread(run),
    )


def landing(entry: Entry, into: str) -> Entry:
    """Return the entry as it leaves and lands: at tier raw, verified by nobody there."""
    return replace(entry, domain=into, trust_tier=Tier.raw, verified=())


def _entries(run: _Run, lines: BinaryIO, progress: Callable[[str, int], None] | None) -> Iterator[Mapping[str, Any]]:
    """Write every current entry that may leave, its line of the manifest into ``lines``; yield their promotions."""
    from amem_core.format.bundle import ManifestEntry, render_line
    from amem_core.format.entry import digest, render

    promotions = travelling.LeavingPromotions(run.session.runtime, run.domain)
    for stored in run.session.runtime.store.entries(run.domain):
        if isinstance(stored, Unreadable):
            continue
        try:
            read = _read(run, stored.id)
            data = b"" if read is None else render(landing(read[0], run.domain))
        except (FormatError, InvalidError) as exc:
            run.unread.append(f"{stored.id} ({exc})" if len(run.unread) < _MOST_NAMED else "")
            continue
        if read is None:
            continue
        entry, own = read
        if not run.may_leave(entry.classification):
            run.withheld += 1
            continue
        line = ManifestEntry(entry.id, entry.version, digest(data), entry.classification)
        run.out.save_entry(f"{entry.id}.md", data)
        lines.write(render_line(line).encode())
        run.entries += 1
        run.reached = max(run.reached, entry.classification)
        promotion = promotions.of(entry if _is_known(run, entry, own) else landing(entry, run.domain), own)
        if promotion is not None:
            yield promotion
        if progress is not None and run.entries % _EVERY == 0:
            progress("exported", run.entries)


def _read(run: _Run, id: str) -> tuple[Entry, str] | None:
    """Return an entry and the digest of its bytes, None for one that has gone or never leaves.

    Raises:
        FormatError: its file cannot be parsed, so that it has no label to go by.
    """
    from amem_core.format.entry import digest, parse

    runtime, domain = run.session.runtime, run.domain
    try:
        data = runtime.store.read(domain, id)
    except NotFoundError:
        return None
    own = digest(data)
    try:
        entry = parse(data, domain=domain, id=id)
    except FormatError:
        # Made by hand, it may leave out when it was made and its label: those that it is served under are used.
        hit = runtime.index.find(id)
        known = hit if hit is not None and (hit.domain, hit.digest) == (domain, own) else None
        entry = parse(
            data,
            domain=domain,
            id=id,
            fallback_time=known.created if known else runtime.clock.now(),
            fallback_label=known.label if known else Label.restricted,
        )
    return None if entry.status in {Status.erased, Status.quarantined} else (entry, own)


def _is_known(run: _Run, entry: Entry, own: str) -> bool:
    """Return whether what an entry claims of its trust was logged: a hand on its file claims nothing by that."""
    if entry.trust_tier is Tier.raw and not entry.verified:
        return True
    hit = run.session.runtime.index.find(entry.id)
    return hit is not None and (hit.domain, hit.digest) == (run.domain, own)


def _marks_file(run: _Run, kind: str, marks: Iterable[Mapping[str, Any]]) -> MarksFile | None:
    """Write the marks of a kind that may leave, None when there are none."""
    from amem_core.format.bundle import MarksFile
    from amem_core.format.bundle_marks import render_heading, render_mark

    whole = hashlib.sha256()
    count, highest = 0, Label.public
    with ExitStack() as stack:
        file: BinaryIO | None = None
        for mark in marks:
            label = Label.parse(mark["label"])
            if not run.may_leave(label):
                run.withheld_marks += 1
                continue
            text = render_mark(kind, mark)
            if file is None:
                file = stack.enter_context(run.out.create(f"{kind}.yaml"))
                text = render_heading(kind) + text
            file.write(text)
            whole.update(text)
            count += 1
            highest = max(highest, label)
    run.reached = max(run.reached, highest)
    return MarksFile(kind, count, whole.hexdigest(), highest) if count else None


def _refuse_erased(run: _Run, ids: Iterable[str]) -> None:
    """Refuse to go on when an entry that is in the bundle was erased meanwhile."""
    for id in sorted(ids):
        if run.out.has_entry(f"{id}.md"):
            message = f"{id} was erased while it was exported; there is no bundle"
            raise ConflictError(message, hint="export again")


def _manifest(run: _Run, marks: list[MarksFile], lines: BinaryIO) -> None:
    from amem_core.format.bundle import MANIFEST, Manifest, check_manifest, render_head

    head = Manifest(
        domain=run.domain,
        created=run.session.runtime.clock.now(),
        by=run.session.author,
        highest_label=run.reached,
        max_label=run.highest,
        marks=tuple(marks),
    )
    part = f".{MANIFEST}"
    with run.out.create(part) as file:
        file.write(render_head(head, with_entries=run.entries > 0).encode())
        lines.seek(0)
        shutil.copyfileobj(lines, file)
        check_manifest(file)
        run.out.settle(file, part, MANIFEST)


def _unread(run: _Run) -> tuple[str, ...]:
    if not run.unread:
        return ()
    named = ", ".join(name for name in run.unread if name)
    more = len(run.unread) - _MOST_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return (f"{len(run.unread)} files cannot be read as entries and were left out: {named}{rest}",)
