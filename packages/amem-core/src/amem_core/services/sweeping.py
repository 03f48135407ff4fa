"""Sweeping a root after an erasure: no tape, cache, projection or bundle below it may go on holding the text.

The record, the index and the ledger forget by themselves. What is left are files that were made from
the text: they are found by the text itself, as it stands in a file and as JSON writes it.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from amem_core.errors import AmemError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from amem_core.domain.entries import Entry

# A line of a body that is shorter may stand in other texts of its own right.
_TELLING_LINE = 40
# Shorter than this, even a whole text says nothing about where it came from.
_SHORTEST = 8
_CHUNK = 1 << 20
# What is swept by others, or is no copy of any text: the record and its log, settings, and the engines' own files.
_RECORD, _STATE = "record", "state"
_KEPT = frozenset({"amem.toml", "grants.toml", "credentials.env"})
_OWN_STATE = ("index.sqlite", "ledger.sqlite", "policy.json")
_TAPES = ".tapes"
_TEMPORARY = ".amem-sweep"


@dataclass
class Swept:
    """What a sweep did. Paths are from the root."""

    cleaned: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def needles(entries: Iterable[Entry], *, with_title: bool) -> list[bytes]:
    """Return what to look for: whole texts, and the lines of a body that are long enough to tell whose they are.

    Each in UTF-8 and as JSON writes it, with and without escapes.
    """
    texts: set[str] = set()
    for entry in entries:
        whole = {entry.summary, entry.body.strip(), *([entry.title] if with_title else ())}
        texts |= {text for text in whole if len(text) >= _SHORTEST}
        texts |= {line.strip() for line in entry.body.splitlines() if len(line.strip()) >= _TELLING_LINE}
    forms = {
        form for text in texts for form in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    }
    return sorted((form.encode("utf-8", "surrogatepass") for form in forms), key=len)


def sweep(root: str, domain: str, id: str, wanted: list[bytes], *, dry_run: bool = False) -> Swept:
    """Take the text of an erased entry out of every file below ``root`` that was made from it.

    Tapes and other files of JSON lines lose the lines that hold it or, in tapes, name the entry; bundles
    lose the entry; other files below ``state`` are removed, as they can be made again. What is none of
    these stays and is named in ``left``. No symbolic link is followed. ``dry_run`` looks only.

    Raises:
        UnavailableError: a directory cannot be listed.
    """
    return _Sweep(root, domain, id, wanted, dry_run=dry_run).run()


class _Sweep:
    """One walk over a root: what is looked for, and what was done so far."""

    def __init__(self, root: str, domain: str, id: str, wanted: list[bytes], *, dry_run: bool) -> None:
        self._root = root
        self._domain = domain
        self._id = id
        self._wanted = wanted
        self._dry_run = dry_run
        self._swept = Swept()

    def run(self) -> Swept:
        bundles: set[str] = set()
        for path in _files(self._root):
            name = os.path.relpath(path, self._root)
            kind = self._kind(name)
            if kind == "own":
                continue
            try:
                bundle = self._bundle_of(path)
                if bundle is not None:
                    bundles.add(bundle)
                else:
                    self._clean(path, name, kind)
            except OSError as exc:
                self._swept.left.append(f"{name}: it cannot be read or cleaned: {exc.strerror}")
        for bundle in sorted(bundles):
            self._clean_bundle(bundle)
        return self._swept

    def _kind(self, name: str) -> str:
        """Return what a file is: ``own`` (swept by others), ``tape``, ``lines`` of JSON, ``derived`` or ``other``."""
        parts = name.split(os.sep)
        if parts[0] == _RECORD:
            return self._kind_in_record(parts)
        if name in _KEPT or parts[0] == "policy":
            return "own"
        if parts[0] == _STATE and (parts[1:2] == ["log"] or parts[-1].startswith(_OWN_STATE)):
            return "own"
        if name.endswith(".jsonl"):
            return "lines"
        return "derived" if parts[0] == _STATE else "other"

    def _kind_in_record(self, parts: list[str]) -> str:
        if parts[2:3] == [_TAPES]:
            return "tape" if parts[-1].endswith(".jsonl") else "derived"
        # Entries that quote it are others' own texts: who cites it is flagged, who only holds it is named.
        entry = parts[2:] != [f"{self._id}.md"] and parts[2:] == parts[-1:] and parts[-1].endswith(".md")
        return "other" if entry else "own"

    def _clean(self, path: str, name: str, kind: str) -> None:
        if kind in {"tape", "lines"}:
            # A line of a tape that names the entry is about it; one of a decision is the owner's own account.
            self._clean_lines(path, name, [*self._wanted, self._id.encode()] if kind == "tape" else self._wanted)
        elif _holds(path, self._wanted):
            if kind == "derived":
                self._swept.cleaned.append(name)
                if not self._dry_run:
                    _remove(path)
            else:
                self._swept.left.append(f"{name}: it holds the text, and amem did not make it or may not change it")

    def _clean_lines(self, path: str, name: str, wanted: list[bytes]) -> None:
        """Write a mark over each line that holds one of the texts, in place: others may be appending to the file."""
        if not _holds(path, wanted):
            return
        mark = json.dumps({"erased": self._id}).encode()
        with open(path, "rb" if self._dry_run else "r+b") as file:
            changed = False
            at = 0
            for line in iter(file.readline, b""):
                room = len(line.rstrip(b"\r\n"))
                over = (mark if len(mark) <= room else b"{}"[:room]).ljust(room)
                if line[:room] != over and any(text in line for text in wanted):
                    changed = True
                    if not self._dry_run:
                        os.pwrite(file.fileno(), over, at)
                at += len(line)
            if changed and not self._dry_run:
                os.fsync(file.fileno())
        if changed:
            self._swept.cleaned.append(name)

    def _bundle_of(self, path: str) -> str | None:
        """Return the directory of the bundle that a file is part of, None when it is of none."""
        from amem_core.format.bundle import MANIFEST

        directory = os.path.dirname(path)
        for candidate in (directory, os.path.dirname(directory)):
            inside = candidate == self._root or candidate.startswith(os.path.join(self._root, ""))
            if inside and os.path.isfile(os.path.join(candidate, MANIFEST)):
                return candidate
        return None

    def _clean_bundle(self, bundle: str) -> None:
        """Take the entry out of a bundle and out of its manifest, so that what is left is a bundle still."""
        from amem_core.format.bundle import MANIFEST, parse_manifest, render_manifest

        name = os.path.relpath(bundle, self._root)
        entry = os.path.join(bundle, "entries", f"{self._id}.md")
        try:
            with open(os.path.join(bundle, MANIFEST), "rb") as file:
                manifest = parse_manifest(file.read())
            if manifest.domain == self._domain and any(line.id == self._id for line in manifest.entries):
                self._swept.cleaned.append(name)
                if not self._dry_run:
                    # First the text: a bundle that lacks a file is refused, one that names too little is not noticed.
                    _remove(entry)
                    _replace(os.path.join(bundle, MANIFEST), render_manifest(_without(bundle, manifest, self._id)))
        except (AmemError, OSError) as exc:
            self._swept.left.append(f"{name}: the bundle cannot be read or cleaned: {exc}")
        for path in _files(bundle):
            if path != entry and _holds(path, self._wanted):
                self._swept.left.append(f"{os.path.relpath(path, self._root)}: it holds the text under another name")


def _files(root: str) -> Iterator[str]:
    def failed(exc: OSError) -> None:
        message = f"{exc.filename} cannot be listed: {exc.strerror}, so that nothing is known of what it holds"
        raise UnavailableError(message, hint="give this user permission to read it, and erase again") from exc

    for directory, names, files in os.walk(root, onerror=failed):
        names.sort()
        for name in sorted(files):
            path = os.path.join(directory, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                yield path


def _holds(path: str, wanted: list[bytes]) -> bool:
    """Return whether a file holds one of the texts, read a part at a time."""
    if not wanted:
        return False
    overlap = max(map(len, wanted)) - 1
    with open(path, "rb") as file:
        before = b""
        while part := file.read(_CHUNK):
            window = before + part
            if any(text in window for text in wanted):
                return True
            before = window[-overlap:] if overlap else b""
    return False


def _remove(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)
        _sync(os.path.dirname(path))


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _sync(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _without(bundle: str, manifest: Any, id: str) -> Any:
    """Return the manifest without one entry and its promotion; its highest label is that of what is left."""
    from dataclasses import replace

    from amem_core.domain.labels import Label

    entries = tuple(line for line in manifest.entries if line.id != id)
    marks = []
    for listed in manifest.marks:
        kept = (
            _without_promotion(os.path.join(bundle, listed.path), listed, id) if listed.kind == "promotions" else listed
        )
        if kept is not None:
            marks.append(kept)
    labels = [*(line.classification for line in entries), *(listed.classification for listed in marks)]
    return replace(manifest, entries=entries, marks=tuple(marks), highest_label=max(labels, default=Label.public))


def _without_promotion(path: str, listed: Any, id: str) -> Any:
    """Take the promotion of an entry out of a bundle's file; return its line in the manifest, None when none is left."""
    import hashlib
    from dataclasses import replace

    from amem_core.domain.labels import Label
    from amem_core.format.bundle_marks import read_marks, render_heading, render_mark

    with open(path, "rb") as file:
        marks = [mark for mark in read_marks(file, listed.kind, path=listed.path) if mark["id"] != id]
    if len(marks) == listed.count:
        return listed
    if not marks:
        os.unlink(path)
        return None
    data = render_heading(listed.kind) + b"".join(render_mark(listed.kind, mark) for mark in marks)
    _replace(path, data)
    highest = max(Label.parse(mark["label"]) for mark in marks)
    return replace(listed, count=len(marks), digest=hashlib.sha256(data).hexdigest(), classification=highest)


def _replace(path: str, data: bytes) -> None:
    with open(path + _TEMPORARY, "wb", opener=_private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + _TEMPORARY, path)
    _sync(os.path.dirname(path))
