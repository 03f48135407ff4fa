"""The look that every read begins with: is anything of this domain left unfinished?

It stands by itself because a search needs no more of the machinery of writes than this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.errors import UnavailableError

if TYPE_CHECKING:
    from amem_core.runtime import Runtime


def look(runtime: Runtime, domain: str) -> None:
    """Make sure, once per process, that no unfinished write is left in ``domain`` and that the index has followed.

    Costs a directory listing and two look-ups when all is well. Another process that is writing
    right now settles its own.

    Raises:
        UnavailableError: the index knows nothing of the domain and somebody else is rebuilding it.
    """
    if domain in runtime.settled:
        return
    head, mark = runtime.log.head(domain), runtime.index.watermark(domain)
    if mark < head or runtime.store.staged(domain):
        from amem_core.services.committing import settle

        try:
            with runtime.log.writer(domain, wait=0) as writer:
                settle(runtime, domain, writer)
        except UnavailableError:
            if mark == 0:
                raise
            return
    runtime.settled.add(domain)
