"""The hooks of amem. No hook decides access: that is the Policy port."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

from amem_core.plugins.spec import BackendSpec

if TYPE_CHECKING:
    from amem_core.domain.results import Check

hookspec = pluggy.HookspecMarker("amem")


@hookspec
def amem_backends() -> list[BackendSpec]:
    """Declare the backends that this plugin brings; pure data."""
    raise NotImplementedError


@hookspec
def amem_checks(root: str) -> list[Check]:
    """Contribute read-only checks to ``amem doctor``."""
    raise NotImplementedError
