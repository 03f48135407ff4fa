"""The reference adapters as backends named ``memory``: they keep nothing beyond the process."""

from __future__ import annotations

from dataclasses import dataclass

from amem_core.plugins.spec import BackendSpec
from amem_core.ports import API


@dataclass(frozen=True)
class NoSettings:
    """A reference adapter has nothing to set."""


def amem_backends() -> list[BackendSpec]:
    """Declare one in-memory backend for each port."""
    return [
        BackendSpec(
            port=port,
            name="memory",
            api=API[port],
            settings="amem_core.reference.plugin:NoSettings",
            factory=f"amem_core.reference.{port}:open_{port}",
            summary="in memory, for tests: gone when the process ends",
        )
        for port in API
    ]
