"""What the owner's command line was answered, for its next start.

A command of the owner asks the same two questions each time: may the session open, and what may it
read. Loading the engine, the text and the grants for them costs more than the rest of a search, so
the answers are kept in ``state/policy.json`` beside the state of every file that they follow from.
They are used only while each of those files is the same in size, inode and both times, while the
keeping file is this user's own and private, and when it was written clearly after the last change of
any of them. Whoever could forge that could change the grants themselves. Anything else asks the engine.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from amem_core.domain.decisions import Decision
from amem_core.domain.labels import Label
from amem_core.domain.queries import ReadFilter
from amem_policy.stamps import FILE, stamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FORMAT = 1
_MOST = 64
_LARGEST = 1 << 20
_HOME = os.path.dirname(__file__)
# A file system may give two changes within a few milliseconds the same time.
_SETTLED_NS = 100_000_000


class Remembered:
    """The owner's answers of one root."""

    def __init__(self, root: str, directory: str) -> None:
        self._root = root
        self._directory = os.path.join(root, directory)
        self._path = os.path.join(root, "state", "policy.json")
        self._files = self._stamps()
        self._new = False
        self.version = ""
        self._answers: dict[str, Any] = {}
        self._load()

    def stands(self) -> bool:
        """Return whether there are answers and the files that they follow from are as they were."""
        return bool(self._answers) and not self._new and self._stamps() == self._files

    def decision(self, action: str, input: Mapping[str, Any]) -> Decision | None:
        """Return the remembered decision, None when there is none."""
        found = self._answers.get(_key(action, input))
        if found is None:
            return None
        return Decision(
            allowed=True,
            reasons=tuple(found["reasons"]),
            rules=tuple(found["rules"]),
            version=self.version,
            obligations=MappingProxyType(found["obligations"]),
        )

    def read_filter(self, session: Mapping[str, Any]) -> ReadFilter | None:
        """Return the remembered read filter, None when there is none."""
        found = self._answers.get(_key("read_filter", session))
        return None if found is None else ReadFilter({name: Label[word] for name, word in found.items()})

    def keep_decision(self, version: str, action: str, input: Mapping[str, Any], decision: Decision) -> None:
        """Keep the opening of the owner's session, when it was allowed."""
        session = input.get("session")
        if action != "session" or not decision.allowed or not _is_owner(session):
            return
        answer = {
            "reasons": list(decision.reasons),
            "rules": list(decision.rules),
            "obligations": dict(decision.obligations),
        }
        self._keep(version, _key(action, input), answer)

    def keep_read_filter(self, version: str, session: Mapping[str, Any], readable: ReadFilter) -> None:
        """Keep what the owner's session may read."""
        if _is_owner(session):
            self._keep(version, _key("read_filter", session), {n: str(label) for n, label in readable.domains.items()})

    def save(self) -> None:
        """Write what is new, unless a file has changed meanwhile. A root that takes no file does without."""
        if not self._new or self._stamps() != self._files:
            return
        self._new = False
        data = json.dumps(
            {"format": _FORMAT, "files": self._files, "version": self.version, "answers": self._answers}
        ).encode()
        temporary = f"{self._path}.{os.getpid()}"
        with contextlib.suppress(OSError):
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.replace(temporary, self._path)

    def _keep(self, version: str, key: str, answer: object) -> None:
        """Keep an answer of the files as they were when this was opened; once they have changed, keep nothing more."""
        self.version = self.version or version
        if version == self.version and key not in self._answers and len(self._answers) < _MOST:
            self._answers[key] = answer
            self._new = True

    def _load(self) -> None:
        """Take in what was kept, if it may be trusted; what cannot be read is as good as not there."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(descriptor, "rb") as file:
                found = os.fstat(descriptor)
                if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077 or found.st_size > _LARGEST:
                    return
                kept = json.loads(file.read())
            newest = max(max(mark[1], mark[4]) for mark in self._files)
            if kept["format"] == _FORMAT and kept["files"] == self._files and newest + _SETTLED_NS < found.st_mtime_ns:
                self.version, self._answers = kept["version"], kept["answers"]

    def _stamps(self) -> list[list[Any]]:
        """Return path, times, size and inode of every file that an answer follows from."""
        return [[path, *_mark(path)] for path in self._sources()]

    def _sources(self) -> Iterator[str]:
        yield os.path.join(self._root, FILE)
        yield self._directory
        try:
            names = sorted(name for name in os.listdir(self._directory) if name.endswith(".rego"))
        except OSError:
            names = []
        yield from (os.path.join(self._directory, name) for name in names)
        # The code and the text that came with it: an upgrade answers anew.
        yield __file__
        yield os.path.join(_HOME, "rego", "amem.rego")


def _mark(path: str) -> tuple[int, ...]:
    try:
        return stamp(os.stat(path))
    except OSError:
        return (0, 0, 0, 0)


def _is_owner(session: object) -> bool:
    return isinstance(session, dict) and session.get("author") == "owner"


def _key(action: str, input: Mapping[str, Any]) -> str:
    return json.dumps([action, input], sort_keys=True)
