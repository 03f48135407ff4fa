"""How names in the record's directories are made and read: the layout that people rely on, in one place."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from amem_core.domain.names import check_domain, check_entry_id, check_mark_key
from amem_core.errors import InvalidError
from amem_core.ports.store import NewVersion, StagedVersion, Stored, Unreadable
from amem_store import _disk

STAGING: Final = ".staging"
HISTORY: Final = ".history"

_STAGED: Final = re.compile(r"(mem-[a-z0-9-]+)\.([1-9][0-9]*)\.([0-9a-f]{64})")
_KEPT: Final = re.compile(r"([1-9][0-9]*)\.md")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_BOM: Final = b"\xef\xbb\xbf"
_FENCE: Final = re.compile(rb"^---[ \t]*\r?$", re.MULTILINE)
_VERSION: Final = re.compile(rb"^(?:version|'version'|\"version\")[ \t]*:[ \t]*['\"]?([0-9]{1,15})\b", re.MULTILINE)


def current_name(id: str) -> str:
    """Return the name of the file that holds the current version.

    Raises:
        InvalidError: ``id`` is not the id of an entry.
    """
    return f"{check_entry_id(id)}.md"


def staged_name(version: NewVersion) -> str:
    """Return the name of a staged version: id, number and digest, so that a listing reads no file.

    Raises:
        InvalidError: the id, the number or the digest cannot be one.
    """
    id = check_entry_id(version.id)
    if version.version < 1 or not _DIGEST.fullmatch(version.digest):
        message = f"version {version.version} with digest {version.digest!r} of {id} cannot be stored"
        raise InvalidError(message, hint="numbers count from 1 and a digest is 64 lower-case hexadecimal digits")
    return f"{id}.{version.version}.{version.digest}"


def parse_staged(name: str) -> StagedVersion | None:
    """Return what a name in the staging directory says, None when it is none of ours."""
    found = _STAGED.fullmatch(name)
    return StagedVersion(found[1], int(found[2]), found[3]) if found else None


def stated_version(data: bytes) -> int:
    """Return the number in the frontmatter of ``data``, 1 when none is there: a file made by hand.

    A line that begins with the field's name at the margin is the field: YAML indents what continues a value.
    """
    text = data.removeprefix(_BOM)
    opening = _FENCE.match(text)
    if opening is None:
        return 1
    closing = _FENCE.search(text, opening.end() + 1)
    found = _VERSION.search(text, opening.end(), closing.start() if closing else len(text))
    return max(1, int(found[1])) if found else 1


def is_domain(name: str) -> bool:
    """Return whether ``name`` may name a domain."""
    try:
        return check_domain(name) == name
    except InvalidError:
        return False


def is_entry_id(name: str) -> bool:
    """Return whether ``name`` is an entry's id, in lower case."""
    try:
        return check_entry_id(name) == name
    except InvalidError:
        return False


def is_mark_key(kind: str, name: str) -> bool:
    """Return whether ``name`` is the key of a mark of ``kind``, in lower case."""
    try:
        return check_mark_key(kind, name) == name
    except InvalidError:
        return False


def is_markdown(name: str) -> bool:
    """Return whether a file's name claims an entry: ``.md`` in any case, and not hidden as editors' files are."""
    return name[-3:].lower() == ".md" and not name.startswith(".")


@contextmanager
def opened(parent: int, *names: str) -> Generator[int | None]:
    """Open the directory that ``names`` lead to from ``parent``, None when one of them is missing.

    Raises:
        OSError: one of them is no directory, or a symbolic link.
    """
    held: list[int] = []
    try:
        here: int | None = parent
        for name in names:
            here = _disk.open_below(here, name) if here is not None else None
            if here is not None:
                held.append(here)
        yield here
    finally:
        for fd in held:
            os.close(fd)


def kept_versions(here: int, id: str) -> list[int]:
    """Return the numbers of the versions behind the current one, ascending.

    A publish that a crash cut short leaves the current version linked under its number already: it is
    still the current one, so it does not count.
    """
    with opened(here, HISTORY, id) as history:
        if history is None:
            return []
        numbers = sorted(int(found[1]) for found in map(_KEPT.fullmatch, os.listdir(history)) if found)
        if numbers and _disk.same_file(history, f"{numbers[-1]}.md", here, f"{id}.md"):
            numbers.pop()
    return numbers


def read_kept(here: int, id: str, version: int) -> bytes | None:
    """Return the bytes of an earlier version, None when it is not there or still the current one."""
    name = f"{version}.md"
    with opened(here, HISTORY, id) as history:
        if history is None or _disk.same_file(history, name, here, f"{id}.md"):
            return None
        return _disk.read_below(history, name)


def listed(here: int, name: str, directory: str) -> Stored | Unreadable | None:
    """Return what a listing says of the file ``name``; None when it has gone meanwhile."""
    try:
        found = os.stat(name, dir_fd=here, follow_symlinks=False)
    except FileNotFoundError:
        return None
    path = _disk.shown(os.path.join(directory, name))
    if stat.S_ISLNK(found.st_mode):
        return Unreadable(path, "a symbolic link is not followed; put the file itself in its place")
    if not stat.S_ISREG(found.st_mode):
        return Unreadable(path, "not a plain file; move it out of the record")
    id = name[:-3]
    if not name.endswith(".md") or not is_entry_id(id):
        rule = "the name of an entry's file is its id in lower case and '.md', such as mem-01hxyz.md; rename it"
        return Unreadable(path, rule)
    return Stored(id, f"{found.st_mtime_ns}-{found.st_size}-{found.st_ino}")
