"""A bundle at the gate: its lines and files, each held to the other as it is read, a batch at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amem_core.domain.labels import Status
from amem_core.errors import FormatError, InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from amem_core.domain.entries import Entry
    from amem_core.errors import AmemError
    from amem_core.format.bundle import ManifestEntry, ManifestReader, MarksFile
    from amem_core.services.bundle_files import BundleReading
    from amem_core.session import Session

LARGEST_ENTRY = 32 * 1024 * 1024
# A batch ends with whichever comes first, so that large entries do not add up.
_BATCH = 500
_BATCH_BYTES = 2 * 1024 * 1024

_AGAIN = "export it again; nothing was imported"
_FOREIGN = "no amem wrote this bundle; nothing was imported"


@dataclass(frozen=True)
class Arrival:
    """The session that brings a bundle, the domain that takes it, its directory and its manifest."""

    session: Session
    into: str
    bundle: BundleReading
    manifest: ManifestReader

    def batches(self, refuse: Callable[[AmemError], None] | None = None) -> Iterator[list[tuple[ManifestEntry, Entry]]]:
        """Yield the entries with their lines; what breaks a rule is raised, or given to ``refuse`` and left out.

        Raises:
            InvalidError: a file is not what its line says, or the manifest breaks a rule.
        """
        batch: list[tuple[ManifestEntry, Entry]] = []
        size = 0
        for line in self._lines():
            try:
                entry, weight = self._entry(line)
            except InvalidError as exc:
                if refuse is None:
                    raise
                refuse(exc)
                continue
            batch.append((line, entry))
            size += weight
            if len(batch) >= _BATCH or size >= _BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def marks(self, file: MarksFile) -> Iterator[dict[str, Any]]:
        """Yield the marks of one file.

        Raises:
            InvalidError: the file is missing, no plain file, or breaks a rule of its form.
        """
        from amem_core.format.bundle_marks import read_marks

        with self.bundle.open(file.path) as opened:
            try:
                yield from read_marks(opened, file.kind, path=file.path)
            except FormatError as exc:
                raise InvalidError(str(exc), hint=exc.hint or _AGAIN) from exc

    def _lines(self) -> Iterator[ManifestEntry]:
        try:
            yield from self.manifest.entries()
        except FormatError as exc:
            message = f"{self.bundle.path}: {exc}"
            raise InvalidError(message, hint=exc.hint or _AGAIN) from exc

    def _entry(self, line: ManifestEntry) -> tuple[Entry, int]:
        """Return the entry of a line when its file is what the line says, and the file's size.

        Raises:
            InvalidError: digest, id, version or label differ, or the file is no entry.
        """
        from amem_core.format.entry import digest, parse

        data = self.bundle.read(line.path, LARGEST_ENTRY)
        if digest(data) != line.digest:
            message = f"{line.path} does not have the digest that the manifest gives: it was changed after the export"
            raise InvalidError(message, hint=_AGAIN)
        try:
            entry = parse(data, domain=self.manifest.head.domain, id=line.id, path=line.path)
        except FormatError as exc:
            message = f"the bundle holds a broken entry: {exc}"
            raise InvalidError(message, hint=f"{exc.hint}; nothing was imported") from exc
        fault = _fault(line, entry)
        if fault:
            raise InvalidError(fault, hint=_FOREIGN)
        return entry, len(data)


def _fault(line: ManifestEntry, entry: Entry) -> str:
    if entry.version != line.version:
        return f"{line.path} is version {entry.version} and the manifest says {line.version}"
    if entry.classification is not line.classification:
        return f"{line.path} is {entry.classification} and the manifest says {line.classification}"
    if entry.status in {Status.erased, Status.quarantined}:
        return f"{line.id} is {entry.status}, which does not travel"
    return ""
