"""T0: what a fresh session reads first. Open handoffs, then standing decisions, then pointers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.domain.queries import Conditions
from amem_core.domain.results import T0
from amem_core.services.fencing import fence
from amem_core.services.looking import alarms_of
from amem_core.services.masks import masks_of
from amem_core.services.reach import domains
from amem_core.services.tokens import count_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from amem_core.domain.queries import Hit
    from amem_core.session import Session

# Hosts cut what hooks print, in silence, beyond these (contract, section 9).
MOST_TOKENS = 2_000
MOST_CHARACTERS = 8_000
_CANDIDATES = 50
_POINTED = ("workflow", "policy", "reference", "preference")
_RESERVE_TOKENS = 120
_RESERVE_CHARACTERS = 480
_LONGEST_SUMMARY = 600
_EMPTY = "Nothing is remembered here yet. Before this session ends, write a handoff."


def t0(session: Session, *, domain: str | None, as_of: datetime | None = None, valid_at: datetime | None = None) -> T0:
    """Return T0 for the session; see ``Session.t0``. The same record gives the same bytes."""
    masks = masks_of(as_of, valid_at)
    readable = domains(session, domain)
    index = session.runtime.index

    def newest(**conditions: object) -> list[Hit]:
        asked = Conditions(**conditions)  # type: ignore[arg-type]
        return index.select(readable, asked, order="newest", limit=_CANDIDATES, as_of=as_of, valid_at=valid_at)

    groups = {
        "Open handoffs": newest(types=("handoff",)),
        "Standing decisions": newest(types=("decision",)),
        # A type at a time: of several at once an index can only walk the whole domain where there are few.
        "Pointers": _pointers(newest(always_load=True), [newest(types=(name,)) for name in _POINTED]),
    }
    lines, shown, cut = _fill(groups)
    # In few words: more would take the room of what is remembered.
    lines[:0] = [f"note: {alarm.partition(':')[0]}" for alarm in alarms_of(session.runtime, readable.domains)[:1]]
    names = tuple(sorted(readable.domains))
    if not any(groups.values()):
        lines.append(f"Nothing answers for {' and '.join(masks)}." if masks else _EMPTY)
    lines.append(_footer(cut))
    text = fence({"t0": ",".join(names) or "none", "masks": ", ".join(masks)}, "\n".join(lines))
    session.served([hit.label for hits in shown.values() for hit in hits])
    return T0(
        text=text,
        tokens=count_tokens(text),
        domains=names,
        handoffs=tuple(shown["Open handoffs"]),
        decisions=tuple(shown["Standing decisions"]),
        pointers=tuple(shown["Pointers"]),
        masks=masks,
        cut=cut,
    )


def _pointers(always: Sequence[Hit], others: Sequence[Sequence[Hit]]) -> list[Hit]:
    """What must always be loaded first, then the newest of the rest, each once and none that another group shows."""
    rest = sorted((hit for hits in others for hit in hits), key=lambda hit: (hit.created, hit.id), reverse=True)
    found = {hit.id: hit for hit in (*always, *rest[:_CANDIDATES]) if hit.type not in {"handoff", "decision"}}
    return list(found.values())


def _fill(groups: dict[str, list[Hit]]) -> tuple[list[str], dict[str, list[Hit]], int]:
    """Take lines in order of importance until the next would pass a limit; return them, what they show, and how many were cut."""
    lines: list[str] = []
    shown: dict[str, list[Hit]] = {name: [] for name in groups}
    tokens, characters = _RESERVE_TOKENS, _RESERVE_CHARACTERS
    cut = 0
    for name, hits in groups.items():
        heading = f"{name}:"
        for hit in hits:
            new = [_line(hit)] if shown[name] else [heading, _line(hit)]
            cost = sum(count_tokens(line) + 1 for line in new)
            size = sum(len(line) + 1 for line in new)
            if tokens + cost > MOST_TOKENS or characters + size > MOST_CHARACTERS:
                cut += 1
                continue
            lines.extend(new)
            shown[name].append(hit)
            tokens += cost
            characters += size
    return lines, shown, cut


def _line(hit: Hit) -> str:
    summary = hit.summary if len(hit.summary) <= _LONGEST_SUMMARY else hit.summary[:_LONGEST_SUMMARY] + "…"
    kind = "" if hit.type in {"handoff", "decision"} else f"{hit.type}, "
    review = f", review by {hit.review_by.isoformat()}" if hit.review_by else ""
    when = hit.updated.strftime("%Y-%m-%d")
    return (
        f"- {hit.id} [{kind}{hit.domain}, {when}, {hit.author}, {hit.label}, {hit.tier}{review}] {hit.title}: {summary}"
    )


def _footer(cut: int) -> str:
    more = f"{cut} more did not fit here: find them with search, or t0 of one domain. " if cut else ""
    return f"{more}Read one with get ID; ask with search or recall; promises are on the ledger (claim_next)."
