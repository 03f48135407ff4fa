"""Taking an erased entry out of a bundle that lies below the root, so that what is left is a bundle still."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from amem_core.domain.labels import Label
from amem_core.errors import AmemError
from amem_core.format.bundle import MANIFEST, parse_manifest, render_manifest
from amem_core.format.bundle_marks import read_marks, render_heading, render_mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from amem_core.format.bundle import Manifest, MarksFile

_ENTRIES = "entries"
# What a file is to become, whole; and what is not whole yet.
_READY, _PART = ".amem-sweep", ".part"
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class Closing:
    """An erasure, as far as what is left says so: whose, where, why, by whom and when."""

    id: str
    domain: str
    reason: str
    by: str
    when: str


class Bundle:
    """A bundle by its manifest. No symbolic link below its directory is followed."""

    def __init__(self, directory: str, manifest: Manifest) -> None:
        self.directory = directory
        self._manifest = manifest
        self._names = {MANIFEST, *(file.path for file in manifest.marks), *(line.path for line in manifest.entries)}

    def covers(self, path: str) -> bool:
        """Return whether the manifest says what a file is."""
        return os.path.relpath(path, self.directory) in self._names

    def entry(self, id: str) -> str:
        """Return the path of an entry's file."""
        return os.path.join(self.directory, _ENTRIES, f"{id}.md")

    def holds(self, closing: Closing) -> bool:
        """Return whether the bundle holds the entry, or something that is said of it and may not stay.

        One that a run was cut short in counts as well.

        Raises:
            AmemError: a file of the bundle is not in its form.
            OSError: one cannot be read.
        """
        if os.path.lexists(self._path(MANIFEST) + _READY) or any(
            line.id == closing.id for line in self._manifest.entries
        ):
            return True
        return any(self._says(file, closing) for file in self._manifest.marks)

    def take_out(self, closing: Closing) -> None:
        """Remove the entry's file and what is said of it; the manifest then says what is left.

        What replaces the files is whole on the disk before the first of them is replaced, so that a run
        that was cut short is completed by the next one.

        Raises:
            AmemError: what is left cannot be a bundle.
            OSError: a file cannot be read or written.
        """
        if os.path.lexists(self._path(MANIFEST) + _READY):
            self._replace_files()
        remove(self.entry(closing.id))
        marks = [left for file in self._manifest.marks if (left := self._without(file, closing)) is not None]
        entries = tuple(line for line in self._manifest.entries if line.id != closing.id)
        labels = [*(line.classification for line in entries), *(file.classification for file in marks)]
        manifest = replace(
            self._manifest, entries=entries, marks=tuple(marks), highest_label=max(labels, default=Label.public)
        )
        _write(self._path(MANIFEST) + _READY, [render_manifest(manifest)])
        self._replace_files()

    def _without(self, file: MarksFile, closing: Closing) -> MarksFile | None:
        """Lay out what is left of a file of marks; return its line in the manifest, None when nothing is left."""
        if not self._says(file, closing):
            remove(self._path(file.path) + _READY)
            return file
        digest = hashlib.sha256()
        kept: list[Label] = []

        def lines() -> Iterator[bytes]:
            yield render_heading(file.kind)
            for mark in self._marks(file):
                left = _closed(file.kind, mark, closing)
                if left is not None:
                    kept.append(Label.parse(left["label"]))
                    yield render_mark(file.kind, left)

        def digested() -> Iterator[bytes]:
            for line in lines():
                digest.update(line)
                yield line

        _write(self._path(file.path) + _READY, digested())
        if not kept:
            return None
        return replace(file, count=len(kept), digest=digest.hexdigest(), classification=max(kept))

    def _replace_files(self) -> None:
        """Put what is laid out in the place of what it replaces, the manifest last."""
        with open(self._path(MANIFEST) + _READY, "rb", opener=_opened) as source:
            manifest = parse_manifest(source.read())
        listed = {file.path for file in manifest.marks}
        for file in self._manifest.marks:
            path = self._path(file.path)
            if file.path not in listed:
                remove(path)
                remove(path + _READY)
            elif os.path.lexists(path + _READY):
                os.replace(path + _READY, path)
        os.replace(self._path(MANIFEST) + _READY, self._path(MANIFEST))
        _sync(self.directory)
        self._manifest = manifest

    def _says(self, file: MarksFile, closing: Closing) -> bool:
        return any(_closed(file.kind, mark, closing) != mark for mark in self._marks(file))

    def _marks(self, file: MarksFile) -> Iterator[dict[str, Any]]:
        with open(self._path(file.path), "rb", opener=_opened) as source:
            yield from read_marks(source, file.kind, path=file.path)

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)


def bundle_at(directory: str) -> Bundle | None:
    """Return the bundle whose directory it is; None where there is no manifest of one."""
    if os.path.islink(os.path.join(directory, _ENTRIES)):
        return None
    try:
        with open(os.path.join(directory, MANIFEST), "rb", opener=_opened) as file:
            return Bundle(directory, parse_manifest(file.read()))
    except (AmemError, OSError):
        # What calls itself so and is none is a file like others.
        return None


def remove(path: str) -> None:
    """Remove a file, durable on return; nothing happens when there is none."""
    if os.path.lexists(path):
        os.unlink(path)
        _sync(os.path.dirname(path))


def _closed(kind: str, mark: dict[str, Any], closing: Closing) -> dict[str, Any] | None:
    """Return what is left of a mark: of a promotion of the entry nothing, of its rejection that it was erased."""
    if mark["id"] != closing.id or kind not in {"promotions", "tombstones"}:
        return mark
    if kind == "promotions":
        return None
    if mark["cause"] == "erased":
        return mark
    erased = {"cause": "erased", "reason": closing.reason, "by": closing.by, "when": closing.when, "lifted": None}
    return {**mark, **erased}


def _write(path: str, lines: Iterable[bytes]) -> None:
    """Write a file whole or not at all, durable on return."""
    with suppress(FileNotFoundError):
        os.unlink(path + _PART)
    with open(path + _PART, "wb", opener=_created) as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + _PART, path)
    _sync(os.path.dirname(path))


def _opened(name: str, flags: int) -> int:  # noqa: ARG001  (the form that open asks for)
    return os.open(name, _READ)


def _created(name: str, flags: int) -> int:  # noqa: ARG001  (the form that open asks for)
    return os.open(name, _CREATE, 0o600)


def _sync(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
