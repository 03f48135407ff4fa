"""The record as Markdown files that a person can read with any editor.

Below ``record/<domain>/``: ``<id>.md`` is the current version, ``.history/<id>/<n>.md`` are earlier
ones, ``.erasures/<id>.yaml``, ``.tombstones/<key>.yaml`` and ``.promotions/<id>.yaml`` marks, ``.staging/<id>.<n>.<digest>`` what is durable and not served
yet. Every directory is opened from its parent without following a link, and every name is used
relative to an open directory, so that nothing below ``record/`` can lead out of it.

How often a write waits for the disk is counted by tests: one fsync for each staged file, one of the
domain's directory for a group that is published, and where a version is replaced one of the entry's
history (two the first time). Making a directory for the first time costs one of its parent.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from amem_core.domain.names import check_domain, check_entry_id, check_mark_key
from amem_core.errors import ConflictError, InvalidError, NotFoundError, UnavailableError
from amem_core.ports.store import NewVersion, StagedVersion, StoreCapabilities, Stored, Unreadable
from amem_store import _disk, _layout

if TYPE_CHECKING:
    from amem_core.ports.store import MarkKind, Store
    from amem_store.config import FilesSettings

_CAPABILITIES: Final = StoreCapabilities(multi_process=True)
# File systems without hard links say so in several ways.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
_OPEN_FILES: Final = 64


def open_store(root: str, settings: FilesSettings) -> Store:  # noqa: ARG001  (the factory's signature)
    """Open the record in ``root``, an existing directory.

    Raises:
        UnavailableError: ``root`` is not there, or ``record/`` cannot be made in it.
    """
    return FilesStore(root)


class _Inside:
    """The use of a directory below the record. A class and not a generator: this is on the path of every write.

    ``record`` is followed wherever it leads, as the owner may have put it elsewhere; nothing below it is.
    """

    __slots__ = ("_doing", "_domain", "_fd", "_names", "_record")

    def __init__(self, record: str, domain: str, names: tuple[str, ...], doing: str) -> None:
        self._record = record
        self._domain = domain
        self._names = names
        self._doing = doing
        self._fd: int | None = None

    def __enter__(self) -> int | None:
        try:
            here = _disk.open_inside(self._record, self._domain)
            for name in self._names:
                if here is None:
                    break
                try:
                    below = _disk.open_below(here, name)
                finally:
                    os.close(here)
                here = below
        except OSError as exc:
            raise _disk.unavailable(exc, self._doing, self._path()) from exc
        self._fd = here
        return here

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._fd is not None:
            os.close(self._fd)
        if isinstance(error, OSError):
            raise _disk.unavailable(error, self._doing, self._path()) from error

    def _path(self) -> str:
        return os.path.join(self._record, self._domain, *self._names)


class FilesStore:
    """A store in the directory ``record`` of ``root``. It holds nothing open between calls."""

    def __init__(self, root: str, *, fsync: Callable[[int], None] = _disk.fsync) -> None:
        root = os.path.abspath(root)
        self._record = os.path.join(root, "record")
        self._fsync = fsync
        with _disk.translated("make", self._record):
            if _disk.make_directory(self._record):
                _disk.sync_directory(root, fsync)

    @property
    def capabilities(self) -> StoreCapabilities:
        """Several processes may share the record."""
        return _CAPABILITIES

    def stage(self, domain: str, versions: Sequence[NewVersion]) -> None:
        """Make the versions durable and leave them invisible. Staging the same again replaces it.

        Raises:
            InvalidError: a digest is not that of its bytes, or an id or number cannot be one.
            UnavailableError: there is no room or no permission; what this call staged is removed again.
        """
        names = [_checked_name(version) for version in versions]
        if not names:
            return
        # The directory itself is not synced. If a crash loses a name here before it is published, the
        # log's event finds no bytes, and recovery abandons a write that nobody was told had happened.
        with self._making(domain, _layout.STAGING, settle=False) as staging:
            present = set(os.listdir(staging))
            made: list[str] = []
            try:
                for at in range(0, len(names), _OPEN_FILES):
                    group = [(names[i], versions[i].data) for i in range(at, min(at + _OPEN_FILES, len(names)))]
                    self._stage_group(staging, group, present, made)
            except OSError:
                for name in made:
                    _disk.remove_below(staging, name)
                raise
            replaced = {name.rpartition(".")[0] for name in names}
            for name in present.difference(names):
                if name.rpartition(".")[0] in replaced:
                    _disk.remove_below(staging, name)

    def publish(self, domain: str, versions: Sequence[NewVersion]) -> None:
        """Make staged versions current and keep the ones they replace readable under their numbers.

        What has been published before, under the same number and digest, is left as it is. The
        conditions of all are checked before anything changes (of a second version of one id in the
        same call, before that one changes).

        Raises:
            ConflictError: the current bytes are not the ones to replace, or the number is taken.
            NotFoundError: nothing whole is staged under that id, version and digest.
            UnavailableError: the record cannot be read or written.
        """
        if not versions:
            return
        with self._inside(domain) as here:
            if here is None:
                raise _not_staged(versions[0])
            staging = _disk.open_below(here, _layout.STAGING)
            try:
                self._publish(here, staging, versions)
            finally:
                if staging is not None:
                    os.close(staging)

    def staged(self, domain: str) -> list[StagedVersion]:
        """Return what is staged and not published, by id and version."""
        with self._inside(domain, _layout.STAGING) as staging:
            names = [] if staging is None else os.listdir(staging)
        found = [version for version in map(_layout.parse_staged, names) if version is not None]
        return sorted(found, key=lambda version: (version.id, version.version, version.digest))

    def read_staged(self, domain: str, id: str, version: int) -> bytes:
        """Return staged bytes.

        Raises:
            NotFoundError: nothing is staged under that id and version.
        """
        id = check_entry_id(id)
        with self._inside(domain, _layout.STAGING) as staging:
            if staging is not None:
                for name in _staged_under(staging, id, version):
                    data = _disk.read_below(staging, name)
                    if data is not None:
                        return data
        message = f"nothing is staged as version {version} of {id} in {domain!r}"
        raise NotFoundError(message, hint="list what is staged: it may have been published or discarded")

    def discard(self, domain: str, id: str, version: int) -> None:
        """Remove staged bytes; nothing happens when there are none."""
        id = check_entry_id(id)
        with self._inside(domain, _layout.STAGING) as staging:
            if staging is not None:
                for name in _staged_under(staging, id, version):
                    _disk.remove_below(staging, name)

    def read(self, domain: str, id: str, version: int | None = None) -> bytes:
        """Return the bytes of the current version, or of an earlier one by its number.

        Raises:
            NotFoundError: there is no such entry or version.
            UnavailableError: it is there and cannot be read.
        """
        id = check_entry_id(id)
        with self._inside(domain) as here:
            if here is not None:
                with _disk.translated("read", os.path.join(self._record, domain, f"{id}.md")):
                    data = (
                        _disk.read_below(here, f"{id}.md") if version is None else _layout.read_kept(here, id, version)
                    )
                if data is not None:
                    return data
        which = id if version is None else f"earlier version {version} of {id}"
        message = f"there is no {which} in {domain!r}"
        raise NotFoundError(message, hint="search for it, or list the versions that are kept")

    def earlier_versions(self, domain: str, id: str) -> list[int]:
        """Return the numbers of the versions kept behind the current one, ascending; empty for an unknown id."""
        id = check_entry_id(id)
        with self._inside(domain) as here:
            return [] if here is None else _layout.kept_versions(here, id)

    def entries(self, domain: str) -> Iterator[Stored | Unreadable]:
        """Yield every current entry of the domain once, by id, and every ``.md`` file that is no entry's.

        Hidden files and files with another extension are an editor's and are passed over.
        """
        path = os.path.join(self._record, domain)
        with self._inside(domain) as here:
            if here is None:
                return
            names = [name for name in os.listdir(here) if _layout.is_markdown(name)]
            # By id, not by name: "." sorts after "-", so that mem-a.md would follow mem-a-b.md.
            names.sort(key=lambda name: name[:-3])
            for name in names:
                found = _layout.listed(here, name, path)
                if found is not None:
                    yield found

    def domains(self) -> list[str]:
        """Return the domains that hold at least one entry, sorted.

        A domain that cannot be listed is among them, so that whoever lists it gets the error.
        """
        with _disk.translated("list", self._record), os.scandir(self._record) as found:
            names = [item.name for item in found if not item.is_file(follow_symlinks=False)]
        return sorted(name for name in names if _layout.is_domain(name) and self._holds_entries(name))

    def erase(self, domain: str, id: str, stub: bytes, stub_version: int) -> list[int]:  # noqa: ARG002  (in the stub)
        """Replace the current version by ``stub`` and remove the bytes of every other version and staging.

        Durable on return. Returns the earlier versions that were removed. Repeating it changes nothing.
        """
        id = check_entry_id(id)
        with self._making(domain) as here, self._making(domain, _layout.STAGING, settle=False) as staging:
            removed = _layout.kept_versions(here, id)
            if not _disk.holds(here, f"{id}.md", stub):
                self._put(staging, f".{id}.", here, f"{id}.md", stub)
            self._fsync(here)
            self._remove_history(here, id)
            for name in os.listdir(staging):
                if name.startswith((f"{id}.", f".{id}.")):
                    _disk.remove_below(staging, name)
            self._fsync(staging)
        return removed

    def save_mark(self, domain: str, kind: MarkKind, key: str, data: bytes) -> None:
        """Write a mark, whole or not at all, in place of the one of its key; durable on return."""
        key = check_mark_key(kind, key)
        with self._making(domain, f".{kind}") as marks:
            self._put(marks, f".{key}.", marks, f"{key}.yaml", data)
            self._fsync(marks)

    def marks(self, domain: str, kind: MarkKind) -> Iterator[tuple[str, bytes]]:
        """Yield the key and bytes of every mark of a kind, by key."""
        with self._inside(domain, f".{kind}") as marks:
            if marks is None:
                return
            keys = [name[:-5] for name in os.listdir(marks) if name.endswith(".yaml")]
            for key in sorted(key for key in keys if _layout.is_mark_key(kind, key)):
                data = _disk.read_below(marks, f"{key}.yaml")
                if data is not None:
                    yield key, data

    def marks_of(self, domain: str, kind: MarkKind, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the marks of these keys that are there."""
        checked = [check_mark_key(kind, key) for key in keys]
        with self._inside(domain, f".{kind}") as marks:
            if marks is None:
                return {}
            found = ((key, _disk.read_below(marks, f"{key}.yaml")) for key in checked)
            return {key: data for key, data in found if data is not None}

    def close(self) -> None:
        """Nothing is held. Idempotent."""

    def _inside(self, domain: str, *names: str, doing: str = "use") -> _Inside:
        """Open a directory of the domain, None when it is not there; the record itself must be."""
        return _Inside(self._record, check_domain(domain), names, doing)

    @contextmanager
    def _making(self, domain: str, *names: str, settle: bool = True) -> Generator[int]:
        """Open a directory of the domain, made where it is missing; ``settle`` makes its own name durable."""
        with self._inside(domain, *names, doing="write in") as there:
            if there is not None:
                yield there
                return
        path = os.path.join(self._record, domain, *names)
        with _disk.translated("write in", path):
            here = os.open(self._record, _disk.DIRECTORY)
            try:
                for name in (domain, *names):
                    child = self._made_below(here, name, settle=settle or name == domain)
                    os.close(here)
                    here = child
                yield here
            finally:
                os.close(here)

    def _made_below(self, parent: int, name: str, *, settle: bool) -> int:
        here = _disk.open_below(parent, name)
        if here is None:
            if _disk.make_below(parent, name) and settle:
                self._fsync(parent)
            here = os.open(name, _disk.DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        return here

    def _stage_group(self, staging: int, group: list[tuple[str, bytes]], present: set[str], made: list[str]) -> None:
        """Write the files of a group, then wait for all: the waits of a group overlap in the disk's journal."""
        fds: list[int] = []
        try:
            for name, data in group:
                if name in present and _disk.holds(staging, name, data):
                    fds.append(os.open(name, _disk.READ, dir_fd=staging))
                    continue
                if name in present:  # Left torn by a crash.
                    _disk.remove_below(staging, name)
                fd = os.open(name, _disk.CREATE, _disk.OWNER_FILE, dir_fd=staging)
                fds.append(fd)
                made.append(name)
                present.add(name)
                _disk.write_all(fd, data)
                if len(group) > 1:
                    _disk.begin_writing(fd)
            for fd in fds:
                self._fsync(fd)
        finally:
            for fd in fds:
                os.close(fd)

    def _publish(self, here: int, staging: int | None, versions: Sequence[NewVersion]) -> None:
        """See ``publish``; ``here`` is the domain's directory and ``staging`` that of what is staged."""
        for group in _distinct(versions):
            plan = [(version, self._number_replaced(here, staging, version)) for version in group]
            self._keep_replaced(here, [(version.id, number) for version, number in plan if number])
            for version, number in plan:
                if number is not None:
                    name, current = _layout.staged_name(version), _layout.current_name(version.id)
                    os.replace(name, current, src_dir_fd=staging, dst_dir_fd=here)
        # Also when nothing was left to do: the publish that is repeated may have died before this line.
        self._fsync(here)

    def _number_replaced(self, here: int, staging: int | None, version: NewVersion) -> int | None:
        """Check one version; return the number of the one that it replaces, 0 for none, None when it is done.

        Raises:
            ConflictError: see ``publish``.
            NotFoundError: see ``publish``.
        """
        name, current_name = _layout.staged_name(version), _layout.current_name(version.id)
        id = current_name[:-3]
        current = _disk.read_below(here, current_name)
        digest = None if current is None else _sha256(current)
        kept = _layout.kept_versions(here, id)
        written = version.version in kept and _is(_layout.read_kept(here, id, version.version), version.digest)
        if written or digest == version.digest:
            if staging is not None:  # A file system may have kept both names over a crash.
                _disk.remove_below(staging, name)
            return None
        if digest != version.replaces:
            raise _replaces_other(version, digest)
        number = 0 if current is None else self._number_of(here, id, current, kept)
        if version.version <= max([number, *kept]):
            message = f"version {version.version} of {id} cannot be written: version {max([number, *kept])} was"
            raise ConflictError(message, hint="read the entry again and take a number above every one that is kept")
        if staging is None or not _is(_disk.read_below(staging, name), version.digest):
            raise _not_staged(version)
        return number

    def _number_of(self, here: int, id: str, current: bytes, kept: list[int]) -> int:
        """Return the number to keep the current bytes under: the one in them, unless a hand edit set it back."""
        stated = _layout.stated_version(current)
        if stated > max(kept, default=0) or (stated in kept and _layout.read_kept(here, id, stated) == current):
            return stated
        return kept[-1] + 1

    def _keep_replaced(self, here: int, replaced: list[tuple[str, int]]) -> None:
        """Keep current versions under their numbers, durable before anything takes their place."""
        if not replaced:
            return
        history = self._made_below(here, _layout.HISTORY, settle=True)
        try:
            new = False
            for id, number in replaced:
                if _disk.make_below(history, check_entry_id(id)):
                    new = True
                with _layout.opened(history, check_entry_id(id)) as directory:
                    if directory is None:
                        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), id)
                    self._keep(here, _layout.current_name(id), directory, f"{number}.md")
            if new:
                self._fsync(history)
        finally:
            os.close(history)

    def _keep(self, here: int, current: str, directory: int, name: str) -> None:
        """Give the current file a second name, which stays when the first goes to the next version."""
        try:
            os.link(current, name, src_dir_fd=here, dst_dir_fd=directory, follow_symlinks=False)
        except FileExistsError:
            # Only a publish that was cut short, or copied below, leaves the number taken: see _number_of.
            if not _disk.holds(directory, name, _disk.read_below(here, current) or b""):
                raise
        except OSError as exc:
            if exc.errno not in _NO_LINKS:
                raise
            self._put(directory, f".{name}.", directory, name, _disk.read_below(here, current) or b"")
        self._fsync(directory)

    def _put(self, scratch: int, prefix: str, directory: int, name: str, data: bytes) -> None:
        """Write ``name`` whole or not at all, by way of a name in ``scratch`` that no other process uses."""
        temporary = prefix + os.urandom(8).hex()
        try:
            fd = os.open(temporary, _disk.CREATE, _disk.OWNER_FILE, dir_fd=scratch)
            try:
                _disk.write_all(fd, data)
                self._fsync(fd)
            finally:
                os.close(fd)
            os.replace(temporary, name, src_dir_fd=scratch, dst_dir_fd=directory)
        except OSError:
            _disk.remove_below(scratch, temporary)
            raise

    def _remove_history(self, here: int, id: str) -> None:
        with _layout.opened(here, _layout.HISTORY) as history:
            if history is None:
                return
            with _layout.opened(history, id) as directory:
                if directory is not None:
                    for name in os.listdir(directory):
                        os.unlink(name, dir_fd=directory)
                    os.rmdir(id, dir_fd=history)
            # Also when it was gone: an erasure that is repeated may have died before this line.
            self._fsync(history)

    def _holds_entries(self, domain: str) -> bool:
        try:
            with self._inside(domain) as here:
                if here is None:
                    return False
                with os.scandir(here) as found:
                    return any(_layout.is_markdown(item.name) for item in found)
        except UnavailableError:
            return True


def _checked_name(version: NewVersion) -> str:
    name = _layout.staged_name(version)
    if _sha256(version.data) != version.digest:
        message = f"the digest of version {version.version} of {version.id} is not that of its bytes"
        raise InvalidError(message, hint="give the SHA-256 of exactly the bytes that are to be stored")
    return name


def _staged_under(staging: int, id: str, version: int) -> list[str]:
    return [name for name in os.listdir(staging) if name.startswith(f"{id}.{version}.")]


def _distinct(versions: Sequence[NewVersion]) -> Iterator[list[NewVersion]]:
    """Yield the versions in order, in groups that hold no id twice: a chain of one id goes step by step."""
    group: list[NewVersion] = []
    seen: set[str] = set()
    for version in versions:
        if version.id in seen:
            yield group
            group, seen = [], set()
        group.append(version)
        seen.add(version.id)
    yield group


def _is(data: bytes | None, digest: str) -> bool:
    return data is not None and _sha256(data) == digest


def _not_staged(version: NewVersion) -> NotFoundError:
    message = f"version {version.version} of {version.id} with digest {version.digest} is not staged whole"
    return NotFoundError(message, hint="stage it again, then publish")


def _replaces_other(version: NewVersion, digest: str | None) -> ConflictError:
    message = (
        f"version {version.version} of {version.id} is to replace {version.replaces or 'nothing'},"
        f" and {digest or 'nothing'} is current"
    )
    return ConflictError(message, hint="read the entry again, then decide", current=digest)


def _sha256(data: bytes) -> str:
    # Imported on use: a search hashes nothing, and this loads a library of its own.
    from hashlib import sha256  # noqa: PLC0415

    return sha256(data).hexdigest()
