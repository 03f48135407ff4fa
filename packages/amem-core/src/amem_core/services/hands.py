"""What a person's hand on a file can say, and what it cannot: one rule, before and after the file is taken in.

A hand states a text. It verifies nothing, lowers no label and is nobody's but the owner's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from amem_core.domain.labels import Status, Tier
from amem_core.errors import CorruptionError

if TYPE_CHECKING:
    from amem_core.domain.entries import Entry
    from amem_core.domain.labels import Label
    from amem_core.runtime import Runtime
    from amem_core.services.committing import Current

OWNER = "owner"


def without_claims(entry: Entry, label: Label | None) -> tuple[Entry, tuple[str, ...]]:
    """Return an entry as a hand may have made it, and what of it was not taken; ``label`` is the one that it had."""
    from amem_core.services.tombstones import rejection

    notices: list[str] = []
    status = entry.status
    if entry.trust_tier is not Tier.raw or entry.verified:
        notices.append(f"it said {entry.trust_tier}; a hand on a file verifies nothing, so it is raw")
    if label is not None and entry.classification < label:
        notices.append(f"it said {entry.classification} and stays {label}; a new version by amem write may lower that")
    if status is Status.active and rejection(entry) is not None:
        notices.append("it says that it was rejected, so it is demoted")
        status = Status.demoted
    taken = replace(
        entry,
        author=OWNER,
        trust_tier=Tier.raw,
        verified=(),
        classification=entry.classification if label is None else max(entry.classification, label),
        status=status,
    )
    return taken, tuple(notices)


def as_known(runtime: Runtime, domain: str, current: Current) -> Current:
    """Return a current version as it may be relied on: one that amem did not write claims nothing.

    The index knows the digests of what the log names, and costs one look-up; the log itself is asked
    where the index does not know these bytes, as it may be behind.
    """
    entry = current.entry
    hit = runtime.index.find(entry.id)
    known = hit if hit is not None and hit.domain == domain else None
    if known is not None and (known.digest, known.tier) == (current.digest, entry.trust_tier):
        if known.label <= entry.classification:
            return current
        # An old text that was put back: the label that it has had since is the one that counts.
        return replace(current, entry=replace(entry, classification=known.label))
    if entry.status is Status.erased or _is_logged_since(runtime, domain, current):
        return current
    taken, _ = without_claims(entry, None if known is None else known.label)
    return replace(current, entry=taken, by_hand=True)


def _is_logged_since(runtime: Runtime, domain: str, current: Current) -> bool:
    """Return whether the log names these bytes behind what the index has followed."""
    try:
        return any(
            event.subject == current.entry.id and event.data.get("digest") == current.digest
            for event in runtime.log.read(domain, after=runtime.index.watermark(domain))
        )
    except CorruptionError:
        return False
