"""Making entries of Markdown files: one per section, safe to run again.

A section is known by its source, ``file:<absolute path>#<anchor>``. Unchanged sections write
nothing, changed ones become new versions, and those that are gone are archived. What could not be
read is never taken for gone.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amem_core.domain.entries import Draft
from amem_core.domain.labels import Status
from amem_core.domain.queries import Conditions
from amem_core.domain.results import Broken, Ingested
from amem_core.domain.values import value_keys
from amem_core.errors import FormatError, InvalidError, UnavailableError
from amem_core.services import committing, tombstones
from amem_core.services.committing import Change
from amem_core.services.reach import domains, held
from amem_core.services.writing import MOST_DRAFTS, decide_write, write_many

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from amem_core.format.markdown import Section
    from amem_core.session import Session

ARCHIVED = "entry.archived"
ENDINGS = (".md", ".markdown")
MOST_KNOWN = 1_000_000
LARGEST_FILE = 16 * 1024 * 1024


@dataclass
class _Tally:
    """What has become of the sections so far."""

    written: int = 0
    changed: int = 0
    unchanged: int = 0
    archived: int = 0
    broken: list[Broken] = field(default_factory=list)
    refused: list[Broken] = field(default_factory=list)


@dataclass
class _Tree:
    """The files below the given paths, and the directories that could not be listed."""

    files: list[str] = field(default_factory=list)
    roots: list[str] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def ingest(
    session: Session,
    paths: Sequence[str],
    *,
    domain: str,
    dry_run: bool,
    progress: Callable[[int, int], None] | None,
) -> Ingested:
    """Make entries of the files and trees at ``paths``; see ``Session.ingest``."""
    held(session, domain)
    domains(session, domain)
    tree = _walk(paths, os.path.realpath(session.runtime.root))
    tally = _Tally(broken=list(tree.broken))
    for done, path in enumerate(tree.files, 1):
        _file(session, domain, path, tree, tally, dry_run=dry_run)
        if progress is not None:
            progress(done, len(tree.files))
    _archive_missing_files(session, domain, tree, tally, dry_run=dry_run)
    return Ingested(
        domain=domain,
        files=len(tree.files),
        written=tally.written,
        changed=tally.changed,
        unchanged=tally.unchanged,
        archived=tally.archived,
        broken=tuple(tally.broken),
        refused=tuple(tally.refused),
        dry_run=dry_run,
    )


def _walk(paths: Sequence[str], own: str) -> _Tree:
    tree = _Tree()
    if not paths:
        message = "no path was given"
        raise InvalidError(message, hint="name Markdown files, or directories that hold some")
    for given in paths:
        path = os.path.realpath(given)
        mode = _mode(path, given)
        if stat.S_ISREG(mode):
            tree.files.append(path)
        elif stat.S_ISDIR(mode):
            tree.roots.append(path)
            _walk_directory(path, tree, own)
        else:
            message = f"{given} is no file and no directory"
            raise InvalidError(message, hint="check the path; nothing was written")
    tree.files = sorted(set(tree.files))
    return tree


def _mode(path: str, given: str) -> int:
    """Return the mode of a path, 0 where there is nothing.

    Raises:
        UnavailableError: it cannot be looked at, so that nobody knows what is there.
    """
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as exc:
        message = f"{given} cannot be looked at: {exc.strerror}"
        raise UnavailableError(message, hint="give this user access to it; nothing was written") from exc


def _walk_directory(top: str, tree: _Tree, own: str) -> None:
    """Add the Markdown files below ``top``; hidden directories and amem's ``own`` root are passed over."""

    def failed(exc: OSError) -> None:
        tree.unread.append(os.path.join(exc.filename, ""))
        reason = f"the directory cannot be listed: {exc.strerror}; what was made of it stays"
        tree.broken.append(Broken(path=exc.filename, line=None, reason=reason))

    for directory, names, files in os.walk(top, onerror=failed):
        names[:] = sorted(name for name in names if not name.startswith(".") and os.path.join(directory, name) != own)
        for name in files:
            path = os.path.join(directory, name)
            if not name.lower().endswith(ENDINGS) or name.startswith("."):
                continue
            try:
                if stat.S_ISREG(os.stat(path).st_mode):
                    tree.files.append(path)
            except FileNotFoundError:
                continue
            except OSError as exc:
                # What cannot be looked at is there: what was made of it stays.
                tree.unread.append(path)
                tree.broken.append(Broken(path=path, line=None, reason=f"it cannot be looked at: {exc.strerror}"))


def _file(session: Session, domain: str, path: str, tree: _Tree, tally: _Tally, *, dry_run: bool) -> None:
    """Bring the entries of one file in step with it; a file that cannot be read keeps its entries."""
    from amem_core.format.markdown import sections

    try:
        found = sections(_text(path), name=os.path.basename(path))
    except (OSError, FormatError) as exc:
        line = exc.context.get("line") if isinstance(exc, FormatError) else None
        reason = str(exc) if isinstance(exc, FormatError) else f"it cannot be read: {exc.strerror}"
        tally.broken.append(Broken(path=path, line=line if isinstance(line, int) else None, reason=reason))
        tree.unread.append(path)
        return
    known = _known(session, domain, f"file:{path}#")
    drafts = [_draft(domain, path, section, known) for section in found]
    _write(session, drafts, tally, dry_run=dry_run)
    wanted = {draft.source[0] for draft in drafts}
    gone = [id for source, id in known.items() if source not in wanted]
    _archive(session, domain, gone, tally, dry_run=dry_run)


def _text(path: str) -> str:
    """Return a file's text; a byte order mark and carriage returns are no part of it.

    Raises:
        FormatError: it is too large or no UTF-8.
    """
    with open(path, "rb") as file:
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        message = f"it is larger than {LARGEST_FILE} bytes"
        raise FormatError(message, hint="split it")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as exc:
        message = f"it is not UTF-8: {exc.reason} at byte {exc.start}"
        raise FormatError(message, hint="save it as UTF-8", line=data.count(b"\n", 0, exc.start) + 1) from exc


def _known(session: Session, domain: str, prefix: str) -> dict[str, str]:
    """Return the ids of active entries by the source that begins with ``prefix``."""
    hits = session.runtime.index.select(
        session.readable.narrowed(domain), Conditions(source_prefix=prefix), order="id", limit=MOST_KNOWN
    )
    return {source: hit.id for hit in hits for source in hit.source if source.startswith(prefix)}


def _draft(domain: str, path: str, section: Section, known: dict[str, str]) -> Draft:
    source = f"file:{path}#{section.anchor}"
    return Draft(
        id=known.get(source),
        domain=domain,
        type="reference",
        title=section.title,
        summary=section.summary or section.title,
        body=section.body,
        source=(source,),
        extra={"links": list(section.links)} if section.links else {},
    )


def _write(session: Session, given: list[Draft], tally: _Tally, *, dry_run: bool) -> None:
    drafts = [draft for draft in given if not _is_refused(session, draft, tally)]
    if dry_run:
        for draft in drafts:
            if draft.id is None:
                tally.written += 1
            elif _says_the_same(session, draft):
                tally.unchanged += 1
            else:
                tally.changed += 1
        return
    written = [
        answer
        for first in range(0, len(drafts), MOST_DRAFTS)
        for answer in write_many(session, drafts[first : first + MOST_DRAFTS])
    ]
    for draft, answer in zip(drafts, written, strict=True):
        if not answer.changed:
            tally.unchanged += 1
        elif draft.id is None:
            tally.written += 1
        else:
            tally.changed += 1


def _is_refused(session: Session, draft: Draft, tally: _Tally) -> bool:
    """Tell of a section that states what was rejected or erased; the others of its file go on."""
    keys = value_keys(draft.title, draft.summary, draft.body)
    for item in tombstones.active(session.runtime, draft.domain, list(keys)).values():
        reason = f"it {tombstones.told(draft.domain, item, session)}"
        tally.refused.append(Broken(path=draft.source[0].removeprefix("file:"), line=None, reason=reason))
        return True
    return False


def _says_the_same(session: Session, draft: Draft) -> bool:
    entry = committing.load(session.runtime, draft.domain, draft.id or "").entry
    return (entry.title, entry.summary, entry.body) == (draft.title, draft.summary, draft.body)


def _archive(session: Session, domain: str, ids: Sequence[str], tally: _Tally, *, dry_run: bool) -> None:
    tally.archived += len(ids)
    if dry_run or not ids:
        return
    runtime = session.runtime
    with runtime.log.writer(domain) as writer:
        committing.settle(runtime, domain, writer)
        changes = []
        for id in ids:
            current = committing.load(runtime, domain, id)
            decide_write(session, domain, current.entry.type, None, current)
            archived = committing.next_version(current, runtime.clock.now(), status=Status.archived)
            changes.append(Change(archived, ARCHIVED, current.digest))
        committing.commit(runtime, domain, writer, changes, actor=session.author)


def _archive_missing_files(session: Session, domain: str, tree: _Tree, tally: _Tally, *, dry_run: bool) -> None:
    """Archive the sections of files that are below a given directory no more, unless it could not be listed."""
    present = set(tree.files)
    for root in tree.roots:
        known = _known(session, domain, f"file:{os.path.join(root, '')}")
        gone = []
        for source, id in known.items():
            path = source.removeprefix("file:").rpartition("#")[0]
            if path not in present and not path.startswith(tuple(tree.unread)):
                gone.append(id)
        _archive(session, domain, gone, tally, dry_run=dry_run)
