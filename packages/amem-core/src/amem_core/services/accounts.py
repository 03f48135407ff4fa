"""What a domain's log tells of each entry: which versions there were, by which digest, and since when.

The log is read once, its sequence and chain checked on the way, and what it tells is put in the order
of the ids, so that it can be laid beside the record, the index and the ledger.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Self

from amem_core.domain.labels import Label
from amem_core.domain.names import check_entry_id
from amem_core.domain.results import LogBreak
from amem_core.domain.task_events import PREFIX
from amem_core.errors import CorruptionError, InvalidError
from amem_core.format.events import GENESIS, chain, decode_event, encode_event
from amem_core.services.committing import ABANDONED, ADOPTED, ERASED
from amem_core.services.spooling import Spool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from amem_core.domain.events import Event
    from amem_core.runtime import Runtime

_ENTRY = "entry."
_STEP = 1000


class Named(NamedTuple):
    """One version as the log names it. ``replaces`` is the digest of the bytes that it was made from."""

    seq: int
    kind: str
    version: int
    digest: str
    time: datetime
    replaces: str | None
    label: str | None


@dataclass(frozen=True)
class Account:
    """What the log tells of one entry.

    ``named`` are the versions in the order in which they were logged, without those that were
    abandoned, and after an erasure without those that went with it.
    """

    id: str
    named: tuple[Named, ...] = ()
    erased: bool = False
    # When the log learned of bytes, by their digest: those that it names, and those that a hand edit left.
    _learned: dict[str, datetime] = field(default_factory=dict[str, datetime])
    # The digest that stands for a version last, by the version's number.
    _versions: dict[int, str] = field(default_factory=dict[int, str])
    # Versions whose own bytes a person's hand wrote over.
    _overwritten: frozenset[int] = frozenset()
    _by_hand: frozenset[str] = frozenset()

    @classmethod
    def of(cls, id: str, named: Sequence[Named]) -> Self:
        """Return the account that the events of one id come to, in their order."""
        events = _without_abandoned(named)
        erasure = max((at for at, event in enumerate(events) if event.kind == ERASED), default=-1)
        kept = events[max(erasure, 0) :]
        erasing = kept[0] if erasure >= 0 else None
        learned: dict[str, datetime] = {}
        overwritten: set[int] = set()
        by_hand: set[str] = set()
        for before, event in zip([None, *kept], kept, strict=False):
            if event.replaces is not None and event.replaces not in learned and event is not erasing:
                # Bytes that no event names and that a version was made from: a hand had been there.
                learned[event.replaces] = event.time
                by_hand.add(event.replaces)
                overwritten.update(() if before is None else (before.version,))
            elif event.kind == ADOPTED and before is not None:
                overwritten.add(before.version)
            learned.setdefault(event.digest, event.time)
        return cls(
            id=id,
            named=tuple(kept),
            erased=erasure >= 0 and kept[-1].digest == kept[0].digest,
            _learned=learned,
            _versions={event.version: event.digest for event in kept},
            _overwritten=frozenset(overwritten),
            _by_hand=frozenset(by_hand),
        )

    @property
    def last(self) -> Named | None:
        """The version that the log names last, which the record should hold as the current one; None for none."""
        return self.named[-1] if self.named else None

    @property
    def highest(self) -> int:
        """The highest number of a version, 0 for none."""
        return max(self._versions, default=0)

    @property
    def label(self) -> Label | None:
        """The label that the entry has by the log, None when the log tells of none."""
        stated = [event.label for event in self.named if event.label is not None]
        return Label.parse(stated[-1]) if stated else None

    def learned(self, digest: str) -> datetime | None:
        """Return since when bytes of this digest are known, None for bytes that the log does not know."""
        return self._learned.get(digest)

    def stands(self, version: int, digest: str) -> bool | None:
        """Return whether bytes of ``digest`` may be held as ``version``; None when the log says nothing of either."""
        named = self._versions.get(version)
        if digest == named or digest in self._by_hand:
            return True
        return None if named is None and digest not in self._learned else False

    def lasting(self) -> Iterator[int]:
        """Yield the numbers of the versions that the record should hold behind the current one."""
        last = self.last
        for version in self._versions:
            if last is not None and version != last.version and version not in self._overwritten:
                yield version


@dataclass
class Told:
    """What one reading of a domain's log came to. Close it: it holds temporary files.

    ``head`` is the number of the last event that was read and ``chain`` its chain; ``breach`` is the
    first place at which the log is damaged.
    """

    domain: str
    entries: Spool
    tasks: Spool
    events: int = 0
    head: int = 0
    chain: str = GENESIS
    breach: LogBreak | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.entries.close()
        self.tasks.close()

    def accounts(self) -> Iterator[Account]:
        """Yield the account of each entry, by id. One at a time is under way."""
        for id, payloads in self.entries.groups():
            yield Account.of(id, [_named(payload) for payload in payloads])

    def histories(self) -> Iterator[tuple[str, list[Event]]]:
        """Yield the events of each task, by id. One at a time is under way."""
        for id, payloads in self.tasks.groups():
            yield id, [decode_event(payload, domain=self.domain) for payload in payloads]

    def take(self, event: Event) -> None:
        """Keep what an event tells. Its place in the chain is the caller's to check."""
        self.events += 1
        self.head = event.seq
        self.chain = event.chain
        if not _is_id(event.subject):
            return
        if event.kind.startswith(PREFIX):
            self.tasks.add(event.subject, event.seq, encode_event(event)[:-1])
        elif (named := named_by(event)) is not None:
            self.entries.add(event.subject, event.seq, _payload(named))


def read_log(
    runtime: Runtime, domain: str, *, chained: bool, progress: Callable[[str, int], None] | None = None
) -> Told:
    """Read the whole log of a domain, past damage too, and return what it tells.

    ``chained`` says to compute the chain here as well, whatever the backend checks by itself.

    Raises:
        UnavailableError: the log cannot be read.
    """
    told = Told(domain, Spool(), Spool())
    try:
        _read(runtime, told, chained=chained, progress=progress)
    except BaseException:
        told.__exit__()
        raise
    return told


def named_by(event: Event) -> Named | None:
    """Return the version that an event names, None for an event of anything else."""
    version, digest = event.data.get("version"), event.data.get("digest")
    if not event.kind.startswith(_ENTRY) or type(version) is not int or not isinstance(digest, str):
        return None
    replaces, label = event.data.get("replaces"), event.data.get("label")
    return Named(event.seq, event.kind, version, digest, event.time, replaces, label)


def _read(runtime: Runtime, told: Told, *, chained: bool, progress: Callable[[str, int], None] | None) -> None:
    after = 0
    # None behind damage: the first event there vouches for itself.
    previous: str | None = GENESIS
    while True:
        before = told.events
        try:
            for event in runtime.log.read(told.domain, after=after):
                if chained and told.breach is None:
                    told.breach = _breach(event, after, previous)
                told.take(event)
                after, previous = event.seq, event.chain
                if progress is not None and told.events % _STEP == 0:
                    progress(told.domain, told.events)
        except CorruptionError as exc:
            told.breach = told.breach or _break_of(exc, after + 1)
            resume = exc.context.get("resume_after")
            if type(resume) is not int or resume < after or (resume == after and told.events == before):
                return
            after, previous = resume, None
        else:
            return


def _breach(event: Event, after: int, previous: str | None) -> LogBreak | None:
    if event.seq != after + 1:
        return LogBreak(line=None, seq=after + 1, reason=f"event {event.seq} is in its place")
    if previous is not None and event.chain != chain(previous, domain=event.domain, seq=event.seq, event=event):
        reason = "its chain does not follow from the event before it: one of the two was changed"
        return LogBreak(line=None, seq=event.seq, reason=reason)
    return None


def _break_of(exc: CorruptionError, expected: int) -> LogBreak:
    seq, line = exc.context.get("seq"), exc.context.get("line")
    return LogBreak(
        line=line if isinstance(line, int) else None, seq=seq if isinstance(seq, int) else expected, reason=str(exc)
    )


def _without_abandoned(named: Sequence[Named]) -> list[Named]:
    """Return the events without those that were closed later because nobody held the bytes any more."""
    waiting: Counter[tuple[int, str]] = Counter()
    kept: list[Named] = []
    for event in reversed(named):
        key = (event.version, event.digest)
        if event.kind == ABANDONED:
            waiting[key] += 1
        elif waiting[key]:
            waiting[key] -= 1
        else:
            kept.append(event)
    return kept[::-1]


def _payload(named: Named) -> bytes:
    return json.dumps([*named[:4], named.time.isoformat(), *named[5:]], separators=(",", ":")).encode()


def _named(payload: bytes) -> Named:
    seq, kind, version, digest, time, replaces, label = json.loads(payload)
    return Named(seq, kind, version, digest, datetime.fromisoformat(time), replaces, label)


def _is_id(subject: str) -> bool:
    """Return whether an event is about an entry or task that could be in the record: other ids name nothing there."""
    try:
        return check_entry_id(subject) == subject
    except InvalidError:
        return False
