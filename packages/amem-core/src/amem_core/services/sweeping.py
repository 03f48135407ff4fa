"""Sweeping a root after an erasure: no tape, cache, projection or bundle below it may go on holding the text.

The record, the index and the ledger forget by themselves. What is left are files that were made from
the text: they are found by the text itself. What amem did not make, or may not change, is named.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amem_core.errors import AmemError
from amem_core.services.bundle_sweeping import bundle_at, remove

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from amem_core.services.bundle_sweeping import Bundle, Closing
    from amem_core.services.evidence import Evidence

# What is no copy of any text, or forgets by itself: settings, the log, marks.
_RECORD, _STATE = "record", "state"
_SETTINGS = frozenset({"amem.toml", "grants.toml", "credentials.env"})
_OWN_STATE = frozenset({"log", "locks", "policy.json", "http-token"})
_MARKS = frozenset({".erasures", ".tombstones", ".promotions"})
_HISTORY, _STAGING, _TAPES = ".history", ".staging", ".tapes"
_DECISIONS = os.path.join(_STATE, "decisions.jsonl")
# No line that amem writes is longer.
_LONGEST_LINE = 64 << 20


@dataclass
class Swept:
    """What a sweep did. Paths are from the root."""

    cleaned: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])


def sweep(
    root: str, closing: Closing, evidence: Evidence, *, engines: Iterable[str] = (), dry_run: bool = False
) -> Swept:
    """Take the text of an erased entry out of every file below ``root`` that was made from it.

    Tapes lose the lines that name the entry or hold a text of it, other files of JSON lines below
    ``state`` those that hold one, bundles the entry; other files below ``state`` are removed, as they
    can be made again. What is none of these, or cannot be read, stays and is named in ``left``. No
    symbolic link is followed. ``engines`` are the names below ``state`` that belong to index and ledger,
    which forget by themselves. ``dry_run`` looks only.
    """
    return _Sweep(root, closing, evidence, frozenset(engines), dry_run=dry_run).run()


class _Sweep:
    """One walk over a root: what is looked for, and what was done so far."""

    def __init__(
        self, root: str, closing: Closing, evidence: Evidence, engines: frozenset[str], *, dry_run: bool
    ) -> None:
        self._root = root
        self._own_state = _OWN_STATE | engines
        self._closing = closing
        self._evidence = evidence
        self._dry_run = dry_run
        self._swept = Swept()
        # The bundle that was looked at last: a walk meets its files one behind the other.
        self._bundle: tuple[str, Bundle | None] = ("", None)
        self._bundles: set[str] = set()

    def run(self) -> Swept:
        for path in self._files():
            kind = self._kind(os.path.relpath(path, self._root))
            if kind == "own":
                continue
            try:
                bundle = self._bundle_of(path) if kind in {"derived", "other"} else None
                if bundle is not None and bundle.covers(path):
                    self._look_into(bundle, path)
                else:
                    self._clean(path, kind)
            except FileNotFoundError:
                # It went while it was looked at, and its text with it.
                continue
            except OSError as exc:
                self._leave(path, f"it cannot be read or cleaned: {exc.strerror}")
        self._swept.cleaned.sort()
        self._swept.left.sort()
        return self._swept

    # -- what a file is -------------------------------------------------------------------------------

    def _kind(self, name: str) -> str:
        """Return what a file is: ``own`` (forgets by itself), ``tape``, ``lines`` of JSON, ``derived`` or ``other``."""
        parts = name.split(os.sep)
        if parts[0] == _RECORD:
            return self._kind_in_record(*parts[1:]) if parts[2:] else "other"
        if name in _SETTINGS or parts[0] == "policy":
            return "own"
        if parts[0] != _STATE:
            return "other"
        if parts[1] in self._own_state:
            return "own"
        return "lines" if name.endswith(".jsonl") else "derived"

    def _kind_in_record(self, domain: str, *parts: str) -> str:
        if parts[0] == _TAPES:
            return "tape" if parts[-1].endswith(".jsonl") else "derived"
        if parts[0] in _MARKS:
            return "own"
        # Entries that quote it are others' own texts: who cites it is flagged, who only holds it is named.
        id = self._closing.id
        entry = parts == (f"{id}.md",) or parts[:2] == (_HISTORY, id)
        entry = entry or (parts[0] == _STAGING and parts[-1].startswith((f"{id}.", f".{id}.")))
        return "own" if entry and domain == self._closing.domain else "other"

    def _bundle_of(self, path: str) -> Bundle | None:
        """Return the bundle whose directory holds a file, or holds the directory of it."""
        directory = os.path.dirname(path)
        if os.path.basename(directory) == "entries":
            directory = os.path.dirname(directory)
        if self._bundle[0] != directory:
            self._bundle = (directory, bundle_at(directory))
        return self._bundle[1]

    # -- what becomes of it ---------------------------------------------------------------------------

    def _look_into(self, bundle: Bundle, path: str) -> None:
        """Take the entry out of a bundle when the first of its files is met; name what holds a text all the same."""
        if bundle.directory not in self._bundles:
            self._bundles.add(bundle.directory)
            self._clean_bundle(bundle)
        if path != bundle.entry(self._closing.id) and os.path.exists(path) and self._evidence.in_file(path):
            self._leave(path, "it holds the text under another name")

    def _clean_bundle(self, bundle: Bundle) -> None:
        try:
            if bundle.holds(self._closing):
                if not self._dry_run:
                    bundle.take_out(self._closing)
                self._swept.cleaned.append(self._shown(bundle.directory))
        except (AmemError, OSError) as exc:
            self._leave(bundle.directory, f"the bundle cannot be cleaned: {exc}")

    def _clean(self, path: str, kind: str) -> None:
        if kind in {"tape", "lines"}:
            self._clean_lines(path, kind)
        elif not self._evidence.in_file(path):
            return
        elif kind == "derived":
            self._swept.cleaned.append(self._shown(path))
            if not self._dry_run:
                remove(path)
        else:
            self._leave(path, "it holds the text, and amem did not make it or may not change it")

    def _clean_lines(self, path: str, kind: str) -> None:
        """Write a mark over each line that is of the entry, in place: others may be appending to the file."""
        mark = json.dumps({"erased": self._closing.id}).encode()
        changed = False
        at = 0
        with open(path, "rb" if self._dry_run else "r+b") as file:
            for line in iter(lambda: file.readline(_LONGEST_LINE), b""):
                room = len(line.rstrip(b"\r\n"))
                over = (mark if len(mark) <= room else b"{}"[:room]).ljust(room)
                if line[:room] != over and self._is_of_it(line, path, kind):
                    changed = True
                    if not self._dry_run:
                        os.pwrite(file.fileno(), over, at)
                at += len(line)
            if changed and not self._dry_run:
                os.fsync(file.fileno())
        if changed:
            self._swept.cleaned.append(self._shown(path))

    def _is_of_it(self, line: bytes, path: str, kind: str) -> bool:
        """Return whether a line is to go. One of a tape that names the entry is about it; one of a decision is an account."""
        if kind == "tape" and self._evidence.names_it(line):
            return True
        account = os.path.relpath(path, self._root) == _DECISIONS
        return self._evidence.tells(line) if account else self._evidence.within(line)

    # -- the walk -------------------------------------------------------------------------------------

    def _files(self) -> Iterator[str]:
        for directory, names, files in os.walk(self._root, onerror=self._unlisted):
            names.sort()
            for name in sorted(files):
                path = os.path.join(directory, name)
                try:
                    plain = stat.S_ISREG(os.lstat(path).st_mode)
                except FileNotFoundError:
                    continue
                except OSError as exc:
                    self._leave(path, f"it cannot be looked at: {exc.strerror}; nothing is known of what it holds")
                    continue
                if plain:
                    yield path

    def _unlisted(self, exc: OSError) -> None:
        if not isinstance(exc, FileNotFoundError):
            self._leave(str(exc.filename), f"it cannot be listed: {exc.strerror}; nothing is known of what it holds")

    def _leave(self, path: str, why: str) -> None:
        self._swept.left.append(f"{self._shown(path)}: {why}")

    def _shown(self, path: str) -> str:
        """Return a path from the root as text: not every name on a disk is in UTF-8."""
        return os.fsencode(os.path.relpath(path, self._root)).decode("utf-8", "backslashreplace")
