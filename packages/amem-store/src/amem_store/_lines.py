"""Reading the lines of a log's file: from the end, from the middle and in order, never the whole of it at once.

A line ends with a newline; what follows the last newline is torn. Events that are appended together
are one group: every line but the group's last begins with a space, which JSON ignores. So a reader
and a repair both know whether a group is there whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from amem_core.domain.events import Event
from amem_core.errors import CorruptionError
from amem_core.format.events import GENESIS, chain, decode_event, encode_event

if TYPE_CHECKING:
    from amem_core.domain.events import NewEvent

MORE: Final = b" "
"""Begins every line of a group but its last."""

_CHUNK: Final = 1 << 16
_TAIL_CHUNK: Final = 1 << 12
_WINDOW: Final = 1 << 13


class Tail:
    """Where a log ends.

    Attributes:
        seq: the number of the last event of the last whole group, 0 for none.
        chain: that event's chain.
        end: the offset behind that group, in bytes; what follows was never acknowledged.
        torn: whether anything follows, that is, whether a repair is due.
        whole: the event behind ``end`` that is there but for its newline, which a repair keeps.
    """

    __slots__ = ("chain", "end", "seq", "torn", "whole")

    def __init__(self, seq: int, chain: str, end: int, *, torn: bool = False, whole: Event | None = None) -> None:
        self.seq = seq
        self.chain = chain
        self.end = end
        self.torn = torn
        self.whole = whole


def backward(fd: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) of what follows the last newline before ``size``, empty or torn, then of each line before.

    Lines come without their newline.
    """
    rest, at, step = b"", size, _TAIL_CHUNK
    while at:
        step = min(at, step)
        at -= step
        pieces = (os.pread(fd, step, at) + rest).split(b"\n")
        rest = pieces[0]
        end = at + sum(map(len, pieces)) + len(pieces) - 1
        for piece in reversed(pieces[1:]):
            end -= len(piece)
            yield end, piece
            end -= 1
        step = _CHUNK
    yield 0, rest


def forward(fd: int, start: int, size: int, chunk: int = _CHUNK) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) of each whole line from ``start``, which begins a line, to ``size``, without its newline."""
    rest, at = b"", start
    line_at = start
    while at < size:
        data = os.pread(fd, min(chunk, size - at), at)
        if not data:
            return
        at += len(data)
        pieces = (rest + data).split(b"\n")
        rest = pieces.pop()
        for piece in pieces:
            yield line_at, piece
            line_at += len(piece) + 1


def place(previous: str, domain: str, seq: int, event: NewEvent) -> tuple[Event, bytes]:
    """Return the event in its place behind the chain ``previous``, and its line.

    The same as ``link`` and ``encode_event``, with the canonical bytes made once and not twice, which is
    half of what an append computes: the line is the chained bytes with the member ``chain`` put in.

    Raises:
        InvalidError: the time is naive, or ``data`` holds what is no JSON value.
    """
    draft = encode_event(Event(domain, seq, event.kind, event.subject, event.actor, event.time, event.data, ""))
    # Quotes inside a string are escaped, and the only member before it is a string: this one is the member.
    head, member, rest = draft.partition(b'"chain":"",')
    # Imported on use, as everywhere on the way of a search.
    from hashlib import sha256  # noqa: PLC0415

    link = sha256(previous.encode("ascii") + head + rest[:-1]).hexdigest()
    placed = Event(domain, seq, event.kind, event.subject, event.actor, event.time, event.data, link)
    return placed, head + member[:-2] + link.encode("ascii") + b'",' + rest


def parse(line: bytes, domain: str) -> Event:
    """Return the event of a line, whether or not more of its group follows.

    Raises:
        CorruptionError: it is no event of this domain.
    """
    body = line.removeprefix(MORE)
    if not body.startswith(b"{"):
        # JSON ignores more kinds of blanks than a line may begin with.
        message = f"a line of the log of {domain!r} is no event: it does not begin with '{{'"
        raise CorruptionError(message, hint="it is left as it is; restore it from a copy", domain=domain)
    return decode_event(body, domain=domain)


def parse_or_none(line: bytes, domain: str) -> Event | None:
    """Return the event of a line, None for a damaged line."""
    try:
        return parse(line, domain)
    except CorruptionError:
        return None


def follows(event: Event, previous: str) -> bool:
    """Return whether the event's chain follows from ``previous``."""
    return event.chain == chain(previous, domain=event.domain, seq=event.seq, event=event)


def find_seq(fd: int, size: int, domain: str) -> int:
    """Return the sequence number of the last event, 0 for none, without checking that it follows from the one before.

    That is checked by whoever reads so far and by the next writer; a search asks for the number alone.

    Raises:
        CorruptionError: the last whole line is no event of this domain.
    """
    lines = backward(fd, size)
    next(lines)
    for _, line in lines:
        if not line.startswith(MORE):
            return parse(line, domain).seq
    return 0


def find_end(fd: int, size: int) -> int:
    """Return the offset behind the last whole group, whether or not its lines are events; 0 for none."""
    lines = backward(fd, size)
    end = next(lines)[0]
    for offset, line in lines:
        if not line.startswith(MORE):
            return end
        end = offset
    return 0


def find_tail(fd: int, size: int, domain: str) -> Tail:
    """Return where the log ends, from its last lines alone.

    Raises:
        CorruptionError: the last whole line is damaged, or does not follow from the one before.
    """
    lines = backward(fd, size)
    end, torn = next(lines)
    last: Event | None = None
    for offset, line in lines:
        event = parse(line, domain)
        last = last or event
        if not line.startswith(MORE):
            _check_before(event, next(lines, None), domain)
            return Tail(event.seq, event.chain, end, torn=end < size, whole=_whole(torn, last, domain))
        end = offset
    return Tail(0, GENESIS, 0, torn=size > 0, whole=_whole(torn, last, domain))


def _check_before(event: Event, before: tuple[int, bytes] | None, domain: str) -> None:
    """Check that ``event`` follows from the line before it, unless that one is damaged, which a reader reports."""
    previous = None if before is None else parse_or_none(before[1], domain)
    if before is not None and previous is None:
        return
    seq, link = (previous.seq, previous.chain) if previous else (0, GENESIS)
    if event.seq == seq + 1 and follows(event, link):
        return
    message = f"the last event of the log of {domain!r}, {event.seq}, does not follow from the one before it, {seq}"
    raise CorruptionError(message, hint="nothing was changed; restore the file's end from a copy", domain=domain)


def _whole(torn: bytes, last: Event | None, domain: str) -> Event | None:
    """Return the event of a last line that lacks its newline alone and closes its group."""
    if not torn or torn.startswith(MORE):
        return None
    event = parse_or_none(torn, domain)
    seq, link = (last.seq, last.chain) if last else (0, GENESIS)
    return event if event and event.seq == seq + 1 and follows(event, link) else None


def find_after(fd: int, size: int, domain: str, after: int, known: int) -> tuple[int, str | None] | None:
    """Return the offset of the first event above ``after``, and the chain before it; None when there is none.

    The chain is None when the line before is damaged: then the first event vouches for itself.
    ``known`` is an offset that begins a line with no event above ``after`` before it. Damaged lines
    are passed over. Costs a search by halves, not a scan.
    """
    low, high = known, size
    while high - low > _WINDOW:
        middle = (low + high) // 2
        found = _first_event(fd, middle, high, domain)
        if found is None or found[1].seq > after:
            high = middle
        else:
            low = found[0]
    for offset, line in forward(fd, low, size):
        event = parse_or_none(line, domain)
        if event is not None and event.seq > after:
            return offset, _chain_before(fd, offset, domain, after)
    return None


def _first_event(fd: int, start: int, end: int, domain: str) -> tuple[int, Event] | None:
    """Return the first readable event whose line begins behind ``start`` and ends before ``end``."""
    lines = forward(fd, start, end, _TAIL_CHUNK)
    next(lines, None)  # ``start`` lies anywhere in a line.
    for offset, line in lines:
        event = parse_or_none(line, domain)
        if event is not None:
            return offset, event
    return None


def _chain_before(fd: int, offset: int, domain: str, after: int) -> str | None:
    if offset == 0:
        return None
    lines = backward(fd, offset)
    next(lines)
    event = parse_or_none(next(lines, (0, b""))[1], domain)
    return event.chain if event and event.seq == after else None


def count_lines(fd: int, end: int) -> int:
    """Return how many lines end before the offset ``end``; only an error message asks."""
    count, at = 0, 0
    while at < end and (data := os.pread(fd, min(_CHUNK, end - at), at)):
        count += data.count(b"\n")
        at += len(data)
    return count
