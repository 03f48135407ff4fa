"""Making a root and adding a domain to it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from amem_core.config import load_config
from amem_core.errors import UnavailableError, UnsupportedError
from amem_core.runtime import Runtime
from amem_core.system import SystemClock, SystemIds

if TYPE_CHECKING:
    from amem_core.domain.labels import Label


def init(root: str, *, domain: str, label: Label | None) -> bool:
    """Make ``root`` a root if it is none and add ``domain``; return False if the domain was there.

    Raises:
        UnavailableError: the directory cannot be made or written.
        UnsupportedError: the configured policy keeps its grants elsewhere.
    """
    root = os.path.abspath(root)
    try:
        os.makedirs(root, mode=0o700, exist_ok=True)
    except OSError as exc:
        message = f"{root} cannot be made a root: {exc.strerror}"
        raise UnavailableError(message, hint="choose a directory that this user may write to with --root") from exc
    runtime = Runtime(root, load_config(root), SystemClock(), SystemIds(), {})
    try:
        add = getattr(runtime.policy, "init_domain", None)
        if add is None:
            message = f"the policy {runtime.config.key('policy')} does not take domains from here"
            raise UnsupportedError(message, hint="add the domain where that policy keeps its grants")
        return bool(add(domain, label))
    finally:
        runtime.close()
