"""The hooks of amem. No hook decides access: that is the Policy port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

from amem_core.plugins.spec import BackendSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from amem_core.domain.events import Event
    from amem_core.domain.results import Check

hookspec = pluggy.HookspecMarker("amem")


@hookspec
def amem_backends() -> list[BackendSpec]:
    """Declare the backends that this plugin brings; pure data."""
    raise NotImplementedError


@hookspec
def amem_tools() -> Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]]:
    """Contribute tools to the Tools port, by name."""
    raise NotImplementedError


@hookspec
def amem_on_event(event: Event) -> None:
    """Observe an event after it is durable; cannot veto, and an error here is logged and counted."""
    raise NotImplementedError


@hookspec
def amem_checks(root: str) -> list[Check]:
    """Contribute read-only checks to ``amem doctor``."""
    raise NotImplementedError
