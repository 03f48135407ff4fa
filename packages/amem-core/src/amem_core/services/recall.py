"""``recall``: one question in, one pack of what answers it out, never over the budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.domain.results import Pack
from amem_core.errors import AmemError, DeniedError, InvalidError, UnavailableError
from amem_core.services.fencing import fence_entry
from amem_core.services.notices import notices_of
from amem_core.services.passages import best_passages
from amem_core.services.reading import get
from amem_core.services.search import search
from amem_core.services.tokens import count_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from amem_core.domain.entries import Entry
    from amem_core.domain.queries import Hit
    from amem_core.session import Session

LOWEST_BUDGET = 100
HIGHEST_BUDGET = 100_000
# One entry takes at most this share of the budget, so that a long one does not push out the others.
_SHARE = 0.5
_JOIN = "\n\n"


def recall(
    session: Session,
    question: str,
    *,
    budget: int,
    domain: str | None,
    limit: int,
    as_of: datetime | None = None,
    valid_at: datetime | None = None,
) -> Pack:
    """Return the pack for a question; see ``Session.recall``."""
    if not LOWEST_BUDGET <= budget <= HIGHEST_BUDGET:
        message = f"a budget of {budget} tokens is out of range"
        raise InvalidError(message, hint=f"a budget is {LOWEST_BUDGET} to {HIGHEST_BUDGET} tokens")
    result = search(
        session,
        question,
        domain=domain,
        types=(),
        filter=None,
        limit=limit,
        depth="summaries",
        as_of=as_of,
        valid_at=valid_at,
    )
    blocks: list[str] = []
    taken: list[Hit] = []
    left_out: list[Hit] = []
    unavailable: list[AmemError] = []
    notices = list(result.notices)
    for hit in result.hits:
        entry = _entry(session, hit, as_of, notices, unavailable)
        told = () if entry is None else notices_of(entry, session.runtime.clock.now())
        block = next(
            (
                block
                for block in _blocks(entry, question, int(budget * _SHARE), told, result.masks)
                if count_tokens(_JOIN.join([*blocks, block])) <= budget
            ),
            None,
        )
        if block is None:
            left_out.append(hit)
            continue
        blocks.append(block)
        taken.append(hit)
    if unavailable and not blocks:
        # Nothing that was found could be read: that is no answer, and no empty one.
        raise unavailable[0]
    if left_out:
        notices.append(f"{len(left_out)} more were found and did not fit: get them by id, or ask with a larger budget")
    text = _JOIN.join(blocks)
    return Pack(
        question=question,
        text=text,
        tokens=count_tokens(text),
        budget=budget,
        hits=tuple(taken),
        left_out=tuple(left_out),
        masks=result.masks,
        notices=tuple(notices),
    )


def _entry(
    session: Session, hit: Hit, as_of: datetime | None, notices: list[str], unavailable: list[AmemError]
) -> Entry | None:
    try:
        return get(session, hit.id, version=hit.version if as_of is None else None, as_of=as_of).entry
    except AmemError as exc:
        # A policy that cannot read its grants denies.
        if isinstance(exc, UnavailableError | DeniedError):
            unavailable.append(exc)
        notices.append(f"{hit.id} was found and could not be served: {exc}")
        return None


def _blocks(
    entry: Entry | None, question: str, share: int, told: tuple[str, ...], masks: tuple[str, ...]
) -> Iterator[str]:
    """Yield the fenced block of an entry with less and less of its body, the last without any."""
    if entry is None:
        return
    for tokens in (share, share // 2, share // 4, 0):
        body = best_passages(entry.body, question, tokens) if tokens else ""
        yield fence_entry(entry, body=body, notices=told, masks=masks)
