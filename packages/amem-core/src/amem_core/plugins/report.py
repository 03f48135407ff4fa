"""``amem plugins``: what is installed, from which distribution, and why one that does not load does not."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from amem_core.errors import AmemError
from amem_core.plugins.loader import BUILT_IN, GROUP, load_backend

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(frozen=True, kw_only=True)
class Found:
    """One backend that is installed. ``problem`` is empty when it loads."""

    key: str
    distribution: str
    api: str
    summary: str
    allowed: bool
    problem: str = ""


def report(*, allow: Collection[str] = ()) -> list[Found]:
    """Return every backend that is installed, by key; third-party modules are imported only when ``allow`` names them."""
    strangers = {
        point.name: f"{point.dist.name} {point.dist.version}" if point.dist else point.value
        for point in entry_points(group=GROUP)
        if point.name not in BUILT_IN
    }
    return [
        *(_describe(key, "amem", allow) for key in sorted(BUILT_IN)),
        *(_describe(key, strangers[key], allow) for key in sorted(strangers)),
    ]


def _describe(key: str, distribution: str, allow: Collection[str]) -> Found:
    allowed = key in BUILT_IN or key in allow
    if not allowed:
        return Found(key=key, distribution=distribution, api="", summary="", allowed=False, problem="not allowed")
    try:
        spec = load_backend(key, allow=allow)
    except AmemError as exc:
        return Found(key=key, distribution=distribution, api="", summary="", allowed=True, problem=str(exc))
    return Found(
        key=key,
        distribution=distribution,
        api=f"{spec.api[0]}.{spec.api[1]}",
        summary=spec.summary,
        allowed=True,
    )
