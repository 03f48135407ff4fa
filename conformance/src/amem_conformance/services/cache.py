"""Where ``nox -s services`` puts what services need, outside the tree: fetched once, found by every checkout."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "AMEM_SERVICES_CACHE"


def cache() -> Path:
    """Return the directory that ``AMEM_SERVICES_CACHE`` names, or ``amem/services`` in the user's cache.

    Root's is in ``/var/cache``: a server that runs as another user cannot enter root's home.
    """
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    if os.geteuid() == 0:
        return Path("/var/cache/amem/services")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "amem" / "services"
