"""What the use cases answer: to a Python caller as it is, to the command line and MCP as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from amem_core.domain.entries import Entry
from amem_core.domain.labels import Label, Status
from amem_core.domain.queries import Hit
from amem_core.domain.tasks import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One version of one entry, whole. ``fenced`` is its text marked as data for a model's context.

    ``head`` is the entry at the end of the chain that supersedes it, None when nothing does.
    """

    entry: Entry
    digest: str
    current_version: int
    fenced: str
    head: str | None = None
    masks: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An acknowledged write. ``changed`` is False when the same text was there already."""

    id: str
    version: int
    domain: str
    label: Label
    digest: str
    changed: bool = True
    superseded: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A value that may not be stated again. ``flagged`` entries were derived from it, or state it too: they are due for review.

    ``values`` are the keys by which the value is known in whatever dress.
    """

    id: str
    version: int
    domain: str
    digest: str
    reason: str
    values: tuple[str, ...]
    flagged: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifted:
    """A value that may be stated again; ``status`` is the entry's from now on."""

    id: str
    version: int
    domain: str
    digest: str
    status: Status
    values: tuple[str, ...]
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A verification that was recorded; ``verifications`` is how many the entry has by now."""

    id: str
    version: int
    domain: str
    digest: str
    oracle: str
    by: str
    verifications: int
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """What ``recall`` returns: fenced text inside the budget, and what it holds.

    ``hits`` are in the text, best first; ``left_out`` were found and did not fit. ``tokens`` counts
    ``text`` and is never above ``budget``.
    """

    question: str
    text: str
    tokens: int
    budget: int
    hits: tuple[Hit, ...]
    left_out: tuple[Hit, ...] = ()
    masks: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class T0:
    """What a fresh session reads first: under 2,000 tokens and 8,000 characters, the same bytes for the same record."""

    text: str
    tokens: int
    domains: tuple[str, ...]
    handoffs: tuple[Hit, ...]
    decisions: tuple[Hit, ...]
    pointers: tuple[Hit, ...]
    cut: int = 0
    masks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """A task with its text. ``created`` is False when the same filing was there before.

    ``title``, ``summary`` and ``body`` are the task entry's; ``fenced`` marks them as data.
    """

    task: Task
    title: str
    summary: str
    body: str
    fenced: str
    created: bool = False
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNode:
    """A task in its tree, under the task that its ``origin`` names."""

    task: Task
    title: str
    children: tuple[TaskNode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A bundle that was written. ``withheld`` entries and ``withheld_marks`` stand above ``max_label``.

    ``receipts``, ``tombstones`` and ``promotions`` count the marks that went with the entries.
    """

    path: str
    domain: str
    entries: int
    highest_label: Label
    max_label: Label
    withheld: int
    withheld_marks: int = 0
    receipts: int = 0
    tombstones: int = 0
    promotions: int = 0
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A bundle that was taken in, all of it, at tier raw; one that would be, where ``dry_run``.

    ``receipts``, ``tombstones`` and ``promotions`` count the marks that it brought. ``there_already``
    of the entries had landed when an earlier import of the same bundle was cut short.
    """

    path: str
    domain: str
    ids: tuple[str, ...]
    receipts: int = 0
    tombstones: int = 0
    promotions: int = 0
    there_already: int = 0
    dry_run: bool = False
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A file that cannot be read as an entry: it is not served, not changed and not deleted."""

    path: str
    line: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """What became of a tree of Markdown files. Counts are of sections; ``refused`` state what was rejected or erased."""

    domain: str
    files: int
    written: int
    changed: int
    unchanged: int
    archived: int
    broken: tuple[Broken, ...] = ()
    refused: tuple[Broken, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reindexed:
    """What a rebuild of one domain's index and ledger found."""

    domain: str
    entries: int
    versions: int
    tasks: int
    broken: tuple[Broken, ...] = ()
    edited_by_hand: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """An erasure that has finished; one that would be done, where ``dry_run``.

    ``flagged`` entries cite it and are due for review; ``swept`` files were made from its text and lost
    it; ``left`` are files that hold it and could not be cleaned. ``index_clean`` is False when another
    connection held the index's file: erasing again finishes that. Paths are from the root.
    """

    id: str
    domain: str
    versions: tuple[int, ...]
    receipt: str
    index_clean: bool
    flagged: tuple[str, ...] = ()
    swept: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    out_of_reach: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The account of an erasure, checked against the log.

    ``versions`` have number and digest, ``values`` are the keys of what may not be stated again.
    ``core`` is the digest that event ``seq`` of the log holds the receipt to, ``chain`` that event's
    hash; ``problem`` says what does not agree, and is empty when all does. ``origin`` is where it was
    erased, when the receipt came with a bundle: then this log has no event of it.
    """

    id: str
    domain: str
    reason: str
    by: str
    time: str
    finished: bool
    index_clean: bool
    versions: tuple[dict[str, Any], ...]
    values: tuple[str, ...]
    flagged: tuple[str, ...]
    swept: tuple[str, ...]
    left: tuple[str, ...]
    out_of_reach: tuple[str, ...]
    origin: str | None
    lifted: dict[str, Any] | None
    core: str
    seq: int | None
    chain: str | None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """A file that a person made or changed by hand and that was taken in. ``stated`` is the version that it said."""

    id: str
    version: int
    stated: int
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Displaced:
    """An entry that the record holds at another version than the one that the log names last."""

    id: str
    logged: int
    held: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Materialized:
    """What a rebuild of one domain's index and ledger from log and record found.

    ``missing`` are entries that the log names and the record does not hold; ``refused`` are files
    that were made or changed by hand and not taken in; ``damage`` says where the log is damaged.
    """

    domain: str
    entries: int
    versions: int
    tasks: int
    adopted: tuple[Adopted, ...] = ()
    displaced: tuple[Displaced, ...] = ()
    missing: tuple[str, ...] = ()
    refused: tuple[Broken, ...] = ()
    broken: tuple[Broken, ...] = ()
    damage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBreak:
    """The first place at which a log is damaged. ``line`` counts the file's lines from 1, where the log is a file."""

    line: int | None
    seq: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a check found. ``rule`` is a stable name; ``state`` is ``warning`` or ``alarm``.

    ``id`` is the entry or task that it is about and ``other`` the one that it leads to.
    """

    domain: str
    rule: str
    state: str
    detail: str
    id: str | None = None
    other: str | None = None
    path: str | None = None
    line: int | None = None
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogVerified:
    """What a check of one domain's log found. ``chain`` is the last event's; ``torn`` counts bytes behind it.

    ``compared`` versions of the record were laid beside the digests that the log names.
    """

    domain: str
    state: str
    events: int
    chain: str
    compared: int
    torn: int = 0
    breach: LogBreak | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """How much of one domain a check looked at."""

    domain: str
    events: int
    entries: int
    versions: int
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fsck:
    """What a check of record, log, index and ledger found; ``repaired`` says what was done before it looked again."""

    state: str
    domains: tuple[Surveyed, ...]
    findings: tuple[Finding, ...] = ()
    repaired: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One finding of ``doctor``: ``state`` is ``ok``, ``warning`` or ``alarm``."""

    name: str
    state: str
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """Who a session is and what has become of its label."""

    author: str
    destination: str | None
    label: Label
    ceiling: Label
    domains: tuple[str, ...]
    opened: datetime
