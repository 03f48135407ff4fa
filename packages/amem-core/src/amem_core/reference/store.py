"""A record in memory that is short and obvious: what the others are compared with, and what tests of services use."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from amem_core.domain.names import check_domain, check_entry_id, check_mark_key
from amem_core.errors import ConflictError, InvalidError, NotFoundError
from amem_core.ports.store import MarkKind, NewVersion, StagedVersion, StoreCapabilities, Stored, Unreadable

_SITES: dict[str, _State] = {}
_SITES_LOCK: Final = threading.Lock()


class _State:
    """What all instances on one root share."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.domains: dict[str, _Domain] = {}

    def domain(self, name: str) -> _Domain:
        """Return what is kept of a domain."""
        return self.domains.setdefault(check_domain(name), _Domain())


class _Domain:
    """Entries as versions by number, the highest of which is current; what is staged; marks by kind and key."""

    def __init__(self) -> None:
        self.entries: dict[str, dict[int, bytes]] = {}
        self.staged: dict[tuple[str, int], tuple[str, bytes]] = {}
        self.marks: dict[str, dict[str, bytes]] = {}

    def current(self, id: str) -> bytes | None:
        """Return the current bytes, None for an unknown id."""
        versions = self.entries.get(id)
        return versions[max(versions)] if versions else None


def open_store(root: str, settings: object = None) -> MemoryStore:  # noqa: ARG001  (as all factories are called)
    """Open the record of ``root``: instances on one root share what they keep, as long as the process lives."""
    with _SITES_LOCK:
        return MemoryStore(_SITES.setdefault(root, _State()))


class MemoryStore:
    """A ``Store`` (amem_core.ports.store) in dictionaries."""

    def __init__(self, state: _State) -> None:
        self._state = state

    @property
    def capabilities(self) -> StoreCapabilities:
        """See ``Store.capabilities``."""
        return StoreCapabilities()

    def stage(self, domain: str, versions: Sequence[NewVersion]) -> None:
        """See ``Store.stage``."""
        for version in versions:
            check_entry_id(version.id)
            if version.version < 1 or _digest(version.data) != version.digest:
                message = (
                    f"version {version.version} of {version.id} is not numbered from 1, or its digest is another's"
                )
                raise InvalidError(message, hint="give the SHA-256 of exactly the bytes that are to be stored")
        with self._state.lock:
            staged = self._state.domain(domain).staged
            for version in versions:
                staged[check_entry_id(version.id), version.version] = (version.digest, version.data)

    def publish(self, domain: str, versions: Sequence[NewVersion]) -> None:
        """See ``Store.publish``."""
        with self._state.lock:
            kept = self._state.domain(domain)
            for version in versions:
                self._publish(kept, check_entry_id(version.id), version)

    def _publish(self, kept: _Domain, id: str, version: NewVersion) -> None:
        versions = kept.entries.get(id, {})
        written = versions.get(version.version)
        if written is not None and _digest(written) == version.digest:
            if kept.staged.get((id, version.version), ("",))[0] == version.digest:
                del kept.staged[id, version.version]
            return
        current = kept.current(id)
        digest = None if current is None else _digest(current)
        if digest != version.replaces:
            message = f"{id} is at {digest}, and {version.replaces} was to be replaced"
            raise ConflictError(message, hint="read the entry again, then decide", current=digest)
        if version.version <= max(versions, default=0):
            message = f"version {version.version} of {id} cannot be written: {max(versions)} was"
            raise ConflictError(message, hint="take a number above every one that was written")
        staged = kept.staged.get((id, version.version))
        if staged is None or staged[0] != version.digest:
            message = f"version {version.version} of {id} with digest {version.digest} is not staged"
            raise NotFoundError(message, hint="stage it, then publish")
        del kept.staged[id, version.version]
        kept.entries.setdefault(id, {})[version.version] = staged[1]

    def staged(self, domain: str) -> list[StagedVersion]:
        """See ``Store.staged``."""
        with self._state.lock:
            staged = self._state.domain(domain).staged
            return [StagedVersion(id, version, staged[id, version][0]) for id, version in sorted(staged)]

    def read_staged(self, domain: str, id: str, version: int) -> bytes:
        """See ``Store.read_staged``."""
        with self._state.lock:
            found = self._state.domain(domain).staged.get((check_entry_id(id), version))
        if found is None:
            message = f"nothing is staged as version {version} of {id}"
            raise NotFoundError(message, hint="list what is staged")
        return found[1]

    def discard(self, domain: str, id: str, version: int) -> None:
        """See ``Store.discard``."""
        with self._state.lock:
            self._state.domain(domain).staged.pop((check_entry_id(id), version), None)

    def read(self, domain: str, id: str, version: int | None = None) -> bytes:
        """See ``Store.read``."""
        with self._state.lock:
            versions = self._state.domain(domain).entries.get(check_entry_id(id), {})
            wanted = max(versions, default=0) if version is None else version
            earlier = version is None or version != max(versions, default=0)
            found = versions.get(wanted) if earlier else None
        if found is None:
            message = f"there is no {id} in {domain!r}, or no earlier version {version} of it"
            raise NotFoundError(message, hint="search for it, or list the versions that are kept")
        return found

    def earlier_versions(self, domain: str, id: str) -> list[int]:
        """See ``Store.earlier_versions``."""
        with self._state.lock:
            return sorted(self._state.domain(domain).entries.get(check_entry_id(id), {}))[:-1]

    def entries(self, domain: str) -> Iterator[Stored | Unreadable]:
        """See ``Store.entries``."""
        with self._state.lock:
            kept = self._state.domain(domain)
            found = [Stored(id, _digest(kept.current(id) or b"")) for id in sorted(kept.entries)]
        yield from found

    def domains(self) -> list[str]:
        """See ``Store.domains``."""
        with self._state.lock:
            return sorted(name for name, kept in self._state.domains.items() if kept.entries)

    def erase(self, domain: str, id: str, stub: bytes, stub_version: int) -> list[int]:
        """See ``Store.erase``."""
        id = check_entry_id(id)
        with self._state.lock:
            kept = self._state.domain(domain)
            earlier = sorted(kept.entries.get(id, {}))[:-1]
            kept.entries[id] = {stub_version: stub}
            for key in [key for key in kept.staged if key[0] == id]:
                del kept.staged[key]
        return earlier

    def save_mark(self, domain: str, kind: MarkKind, key: str, data: bytes) -> None:
        """See ``Store.save_mark``."""
        key = check_mark_key(kind, key)
        with self._state.lock:
            self._state.domain(domain).marks.setdefault(kind, {})[key] = data

    def marks(self, domain: str, kind: MarkKind) -> Iterator[tuple[str, bytes]]:
        """See ``Store.marks``."""
        with self._state.lock:
            found = sorted(self._state.domain(domain).marks.get(kind, {}).items())
        yield from found

    def marks_of(self, domain: str, kind: MarkKind, keys: Sequence[str]) -> dict[str, bytes]:
        """See ``Store.marks_of``."""
        with self._state.lock:
            kept = self._state.domain(domain).marks.get(kind, {})
            return {key: kept[key] for key in (check_mark_key(kind, key) for key in keys) if key in kept}

    def close(self) -> None:
        """See ``Store.close``."""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
