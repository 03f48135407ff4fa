"""A session: one agent's or person's run against a memory, and everything that it may ask.

Each method is one use case. The command line and the MCP server call these and nothing else.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Self

from amem_core.domain.decisions import Decision
from amem_core.domain.labels import Label
from amem_core.errors import DeniedError, InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta
    from types import TracebackType

    from amem_core.domain.entries import Draft
    from amem_core.domain.queries import ReadFilter, SearchResult
    from amem_core.domain.results import (
        T0,
        Erased,
        Exported,
        Fsck,
        Imported,
        Ingested,
        Lifted,
        LogVerified,
        Materialized,
        Pack,
        Reading,
        Receipt,
        Reindexed,
        Rejected,
        SessionInfo,
        TaskNode,
        TaskView,
        Verified,
        Written,
    )
    from amem_core.domain.tasks import Task, TaskStatus
    from amem_core.runtime import Runtime

DEFAULT_LIMIT = 10
DEFAULT_BUDGET = 1500
DEFAULT_LEASE_SECONDS = 900.0


class Session:
    """One run: an author, a label that only rises as it reads, a ceiling, and the domains that it holds.

    Made by ``Memory.session``. Callable from any thread. Every method raises ``DeniedError`` when the
    policy refuses, ``UnavailableError`` when a backend cannot serve, and ``InvalidError`` for
    arguments that break a rule; what else it raises is said there.
    """

    def __init__(
        self, runtime: Runtime, *, author: str, destination: str | None, domains: tuple[str, ...] | None
    ) -> None:
        self.runtime = runtime
        self.author = author
        self.destination = destination
        self.label = Label.public
        self.ceiling = Label.public
        self._narrowed = domains
        self._opened = runtime.clock.now()
        self._closed = False
        self._rising = threading.Lock()
        opened = self.decide("session", {})
        self.ceiling = Label.parse(opened.obligations.get("ceiling", "public"))
        self._filter_version = runtime.policy.version
        self._readable = runtime.policy.read_filter(self._facts())

    # -- what every use case stands on ------------------------------------------------------------

    @property
    def kind(self) -> str:
        """``owner`` for the owner's own hand, ``agent`` for everything else."""
        return "owner" if self.author == "owner" else "agent"

    def _facts(self) -> dict[str, Any]:
        return {
            "author": self.author,
            "kind": self.kind,
            "destination": self.destination,
            "domains": None if self._narrowed is None else list(self._narrowed),
            "label": str(self.label),
            "ceiling": str(self.ceiling),
        }

    def decide(self, action: str, resource: Mapping[str, Any], *, about: str | None = None) -> Decision:
        """Ask the policy, log the decision, and return it when it allows.

        ``about`` is an id for the log alone, where the decision is the same for all of a kind.

        Raises:
            DeniedError: the policy refused; the message holds its reasons.
        """
        if self._closed:
            message = "the session is closed"
            raise InvalidError(message, hint="open another with Memory.session")
        decision = self.runtime.decide(action, self._facts(), resource, about=about)
        if not decision.allowed:
            raise DeniedError(
                f"{action} refused: {'; '.join(decision.reasons) or 'no rule allows it'}",
                hint="ask the owner to change grants.toml if this should be allowed",
                rules=decision.rules,
            )
        return decision

    @property
    def readable(self) -> ReadFilter:
        """What this session may read: the policy's residual, evaluated again only when the policy's version changes."""
        version = self.runtime.policy.version
        if version != self._filter_version:
            self._readable = self.runtime.policy.read_filter(self._facts())
            self._filter_version = version
        if not self._readable.domains:
            # Closed altogether: a policy that cannot read its grants says so here, instead of all being not found.
            self.decide("session", {})
        return self._readable

    def served(self, labels: Sequence[Label]) -> None:
        """Raise the session's label to the highest of what it was just shown."""
        with self._rising:
            self.label = max(self.label, *labels) if labels else self.label

    def info(self) -> SessionInfo:
        """Return who this session is, its label and its ceiling."""
        from amem_core.domain.results import SessionInfo

        return SessionInfo(
            author=self.author,
            destination=self.destination,
            label=self.label,
            ceiling=self.ceiling,
            domains=tuple(sorted(self.readable.domains)),
            opened=self._opened,
        )

    # -- the record -------------------------------------------------------------------------------

    def search(
        self,
        text: str,
        *,
        domain: str | None = None,
        types: Sequence[str] = (),
        filter: str | None = None,
        limit: int = DEFAULT_LIMIT,
        depth: str = "summaries",
        as_of: datetime | None = None,
        valid_at: datetime | None = None,
    ) -> SearchResult:
        """Find entries by their words, summaries first.

        ``limit`` is 1 to 100. ``depth`` is ``summaries`` or ``sections``. ``filter`` is an
        expression such as ``type = decision and tag in (a, b) and created >= 2026-01-01``. Text
        with no word in it finds nothing and says so. The session's label rises to that of the hits.

        ``as_of`` answers from what was known then, with the trust that it had then; ``valid_at``
        from what was true in the world then; both, from what was believed at the one time of the other.
        """
        from amem_core.services.search import search

        return search(
            self,
            text,
            domain=domain,
            types=types,
            filter=filter,
            limit=limit,
            depth=depth,
            as_of=as_of,
            valid_at=valid_at,
        )

    def get(
        self,
        id: str,
        *,
        version: int | None = None,
        as_of: datetime | None = None,
        valid_at: datetime | None = None,
    ) -> Reading:
        """Read one entry, whole: its current version, an earlier one, or the one that was known at ``as_of``.

        Raises:
            NotFoundError: there is no such entry or version, or not for this session, or what it
                says is not true at ``valid_at``.
        """
        from amem_core.services.reading import get

        return get(self, id, version=version, as_of=as_of, valid_at=valid_at)

    def write(self, draft: Draft) -> Written:
        """Write one entry or one new version of it; durable and visible to search on return.

        Raises:
            NotFoundError: ``draft.id`` or something that it supersedes is not there.
            ConflictError: what it supersedes is superseded already.
        """
        return self.write_many([draft])[0]

    def write_many(self, drafts: Sequence[Draft]) -> list[Written]:
        """Write several drafts of one domain together: all of them or none."""
        from amem_core.services.writing import write_many

        return write_many(self, drafts)

    def reject(self, id: str, *, reason: str) -> Rejected:
        """Take the value that an entry states out of use, so that no write, import or ingest states it again.

        The entry stays readable by its id as ``demoted``; what is derived from it, or states it as
        another entry, is due for review today. The value is known again in other case, spacing and
        Unicode forms.

        Raises:
            NotFoundError: there is no such entry, or not for this session.
            ConflictError: it is rejected already, or erased.
        """
        from amem_core.services.correcting import reject

        return reject(self, id, reason=reason)

    def lift(self, id: str, *, reason: str) -> Lifted:
        """Take a rejection back: the entry is what it was before, and its value may be stated again. The owner only.

        Of an erased entry, its values may be stated again; its text does not come back.

        Raises:
            NotFoundError: there is no such entry.
            ConflictError: it is not rejected, or its value was erased as another entry.
        """
        from amem_core.services.correcting import lift

        return lift(self, id, reason=reason)

    def verify(self, id: str, *, oracle: str, evidence: str, by: str) -> Verified:
        """Record that ``by`` has checked an entry, and make it ``verified``. The owner only.

        ``oracle`` is what it was checked against: ``ci``, ``data``, ``human`` or ``source``;
        ``evidence`` says what was seen. Each verification is kept; a changed text has none.

        Raises:
            InvalidError: there is no evidence, no named verifier or no such oracle, or ``by`` is an
                agent or asserted the text.
            ConflictError: the entry is not active, its file was changed by hand since it was written, or
                its value was rejected as another entry.
        """
        from amem_core.services.correcting import verify

        return verify(self, id, oracle=oracle, evidence=evidence, by=by)

    def recall(
        self,
        question: str,
        *,
        budget: int = DEFAULT_BUDGET,
        domain: str | None = None,
        limit: int = 20,
        as_of: datetime | None = None,
        valid_at: datetime | None = None,
    ) -> Pack:
        """Return the top hits' text inside ``budget`` tokens (100 to 100,000), fenced as data."""
        from amem_core.services.recall import recall

        return recall(self, question, budget=budget, domain=domain, limit=limit, as_of=as_of, valid_at=valid_at)

    def t0(self, *, domain: str | None = None, as_of: datetime | None = None, valid_at: datetime | None = None) -> T0:
        """Return what a fresh session reads first, or would have read first at ``as_of``."""
        from amem_core.services.t0 import t0

        return t0(self, domain=domain, as_of=as_of, valid_at=valid_at)

    # -- the ledger -------------------------------------------------------------------------------

    def create_task(
        self,
        *,
        domain: str,
        title: str,
        summary: str,
        body: str = "",
        priority: int = 100,
        origin: str | None = None,
        upstream_event: str | None = None,
        label: Label | None = None,
    ) -> TaskView:
        """File a task; with ``origin`` and ``upstream_event`` the same filing twice is one task.

        ``priority`` is 0 to 1000, lower first.
        """
        from amem_core.services.tasks import create_task

        return create_task(
            self,
            domain=domain,
            title=title,
            summary=summary,
            body=body,
            priority=priority,
            origin=origin,
            upstream_event=upstream_event,
            label=label,
        )

    def claim_next(
        self, *, domain: str | None = None, lease: timedelta | float = DEFAULT_LEASE_SECONDS, limit: int = 1
    ) -> list[TaskView]:
        """Claim up to ``limit`` (1 to 100) tasks in order of priority; empty when none is ready.

        ``lease`` is a time or a number of seconds, 1 second to 7 days.
        """
        from amem_core.services.tasks import claim_next

        return claim_next(self, domain=domain, lease=lease, limit=limit)

    def claim(self, id: str, *, lease: timedelta | float = DEFAULT_LEASE_SECONDS) -> TaskView:
        """Claim one task by id.

        Raises:
            NotFoundError: there is no such task, or not for this session.
            ConflictError: it is completed or held; the message says by whom and until when.
        """
        from amem_core.services.tasks import claim

        return claim(self, id, lease=lease)

    def heartbeat(self, id: str, *, fence: int, lease: timedelta | float = DEFAULT_LEASE_SECONDS) -> Task:
        """Renew the lease that ``fence`` belongs to.

        Raises:
            NotFoundError: there is no such task.
            ConflictError: the fence is not the current one.
        """
        from amem_core.services.tasks import heartbeat

        return heartbeat(self, id, fence=fence, lease=lease)

    def complete(self, id: str, *, fence: int, result: str | None = None) -> Task:
        """Complete a task; ``result`` is kept as an entry of type ``artifact`` that cites the task.

        Raises:
            NotFoundError: there is no such task.
            ConflictError: the fence is not the current one.
        """
        from amem_core.services.tasks import finish

        return finish(self, "complete", id, fence=fence, text=result)

    def release(self, id: str, *, fence: int, note: str | None = None) -> Task:
        """Give a task back to the pool; ``note`` is kept as a handoff for the next claimant.

        Raises:
            NotFoundError: there is no such task.
            ConflictError: the fence is not the current one.
        """
        from amem_core.services.tasks import finish

        return finish(self, "release", id, fence=fence, text=note)

    def task(self, id: str) -> TaskView:
        """Return one task with its text.

        Raises:
            NotFoundError: there is no such task, or not for this session.
        """
        from amem_core.services.tasks import show

        return show(self, id)

    def tasks(
        self,
        *,
        domain: str | None = None,
        statuses: Sequence[TaskStatus] = (),
        after: str | None = None,
        limit: int = 100,
    ) -> list[TaskNode]:
        """Return tasks by id, behind ``after``, each with its title and no children."""
        from amem_core.services.tasks import list_tasks

        return list_tasks(self, domain=domain, statuses=statuses, after=after, limit=limit)

    def task_tree(self, id: str) -> TaskNode:
        """Return a task and, below it, every task whose origin is ``task:<id>`` or ``continues:<id>``, and so on.

        Raises:
            NotFoundError: there is no such task, or not for this session.
        """
        from amem_core.services.tasks import tree

        return tree(self, id)

    # -- travelling and keeping house -------------------------------------------------------------

    def export(
        self,
        domain: str,
        to: str,
        *,
        max_label: Label | None = None,
        progress: Callable[[str, int], None] | None = None,
    ) -> Exported:
        """Write a bundle of the domain's current entries into the new or empty directory ``to``.

        Receipts' digests, tombstones and promotions go with them. ``progress`` is called with
        ``exported`` and how many entries were written so far.

        Raises:
            ConflictError: ``to`` holds something.
        """
        from amem_core.services.exporting import export

        return export(self, domain, to, max_label=max_label, progress=progress)

    def import_bundle(
        self,
        path: str,
        *,
        domain: str | None = None,
        dry_run: bool = False,
        progress: Callable[[str, int], None] | None = None,
    ) -> Imported:
        """Check a whole bundle, then take it in at tier raw; ``domain`` defaults to the bundle's own.

        An import that was cut short goes on where it stopped when the same bundle is imported again.
        ``dry_run`` checks and writes nothing. ``progress`` is called with what is being done, such as
        ``checked`` or ``imported``, and of how many entries it was so far.

        Raises:
            InvalidError: the bundle breaks a rule; nothing was written.
            ConflictError: it holds an entry that is there already, an id in use elsewhere, or what was
                erased or rejected here.
        """
        from amem_core.services.importing import import_bundle

        return import_bundle(self, path, domain=domain, dry_run=dry_run, progress=progress)

    def ingest(
        self,
        paths: Sequence[str],
        *,
        domain: str,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Ingested:
        """Make entries of Markdown files and trees, one per section; safe to run again.

        ``progress`` is called with the files done and the files in all.
        """
        from amem_core.services.ingest import ingest

        return ingest(self, paths, domain=domain, dry_run=dry_run, progress=progress)

    def reindex(
        self, *, domain: str | None = None, progress: Callable[[str, int], None] | None = None
    ) -> list[Reindexed]:
        """Rebuild index and ledger of one domain, or of all, from the record and the log alone.

        ``progress`` is called with the domain and the number of entries read so far.
        """
        from amem_core.services.reindex import reindex

        return reindex(self, domain=domain, progress=progress)

    def materialize(
        self, *, domain: str | None = None, progress: Callable[[str, int], None] | None = None
    ) -> list[Materialized]:
        """Rebuild as ``reindex`` does, and tell by id where record and log differ. The owner only.

        What was made or changed by hand is taken in as a new version by the owner. Where the log is
        damaged the index is built from what it and the record know, nothing is taken in, and the
        ledger stays as it is.

        Raises:
            CorruptionError: the end of the log is damaged, so that nobody may write behind it.
        """
        from amem_core.services.reindex import materialize

        return materialize(self, domain=domain, progress=progress)

    def verify_log(
        self, *, domain: str | None = None, progress: Callable[[str, int], None] | None = None
    ) -> list[LogVerified]:
        """Check the log: its sequence, its hash chain, and the digests that it names against the record.

        Changes nothing. A torn end, as a crash leaves it, is told and is no alarm. The owner only.
        """
        from amem_core.services.log_checks import verify_log

        return verify_log(self, domain=domain, progress=progress)

    def fsck(
        self, *, domain: str | None = None, repair: bool = False, progress: Callable[[str, int], None] | None = None
    ) -> Fsck:
        """Lay record, log, index and ledger beside each other, and tell where they differ. The owner only.

        Changes nothing unless ``repair`` is set. Repairing completes what was cut short and rebuilds
        what is derived; it never deletes.
        """
        from amem_core.services.fsck import fsck

        return fsck(self, domain=domain, repair=repair, progress=progress)

    def erase(self, id: str, *, reason: str, dry_run: bool = False) -> Erased:
        """Erase every version of an entry and leave a stub and a receipt. The owner only.

        ``reason`` is ``requested``, ``mistaken``, ``sensitive`` or ``legal``. What was made of the text
        below the root goes too, entries that cite it are due for review, and what it stated may not
        be written again. Calling it again finishes an erasure that was cut short, and takes out what
        was put back since. ``dry_run`` says what would be done and does nothing.

        Raises:
            NotFoundError: there is no such entry, or it was erased and nothing of it is there.
            ConflictError: an erasure that was cut short was begun for another reason.
        """
        from amem_core.services.erase import erase

        return erase(self, id, reason=reason, dry_run=dry_run)

    def receipt(self, id: str) -> Receipt:
        """Return the receipt of an erasure, checked against the log's hash chain.

        Raises:
            NotFoundError: there is none for this id, or not for this session.
            CorruptionError: it cannot be read, or the log is damaged before its event.
        """
        from amem_core.services.receipts import show

        return show(self, id)

    def receipts(self, *, domain: str | None = None) -> list[Receipt]:
        """Return the receipts of one domain, or of all that the session holds, by domain and id.

        Raises:
            NotFoundError: the session does not hold the domain.
        """
        from amem_core.services.receipts import listed

        return listed(self, domain)

    def close(self) -> None:
        """End the session. Idempotent."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
