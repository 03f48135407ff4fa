"""Supersession: from any link of a chain to what holds now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.errors import FormatError, NotFoundError

if TYPE_CHECKING:
    from amem_core.domain.entries import Entry
    from amem_core.runtime import Runtime


def head_of(runtime: Runtime, domain: str, entry: Entry) -> Entry | None:
    """Return the entry at the end of the chain that supersedes ``entry``, None when nothing does.

    A link that leads nowhere ends the chain, and so does one that leads back, as only an edit by hand can.
    """
    from amem_core.services.committing import load

    seen = {entry.id}
    head = None
    following = entry.superseded_by
    while following is not None and following not in seen:
        seen.add(following)
        try:
            successor = load(runtime, domain, following).entry
        except (NotFoundError, FormatError):
            break
        head = successor
        following = successor.superseded_by
    return head
