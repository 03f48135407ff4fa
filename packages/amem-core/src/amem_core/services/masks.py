"""The two clocks: what was known then, and what was true then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.errors import InvalidError

if TYPE_CHECKING:
    from datetime import datetime


def masks_of(as_of: datetime | None, valid_at: datetime | None) -> tuple[str, ...]:
    """Return what an answer says of the clocks that ran, none when none did.

    Raises:
        InvalidError: a time names no offset, so it is no instant.
    """
    masks = []
    for name, moment in (("as-of", as_of), ("valid-at", valid_at)):
        if moment is None:
            continue
        if moment.tzinfo is None:
            message = f"{name} {moment.isoformat()} has no offset"
            raise InvalidError(message, hint="write the time with Z or an offset, as in 2026-11-30T12:00:00Z")
        masks.append(f"{name} {moment.isoformat()}")
    return tuple(masks)
