"""Durable memory and a task ledger for disposable agents: types, ports and use cases.

The public names are loaded on first use, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amem_core.domain.entries import Draft, Entry
    from amem_core.domain.labels import Label, Status, Tier
    from amem_core.errors import AmemError
    from amem_core.memory import Memory
    from amem_core.session import Session

__version__ = "0.1.0"
__all__ = ["AmemError", "Draft", "Entry", "Label", "Memory", "Session", "Status", "Tier", "__version__"]

_HOMES = {
    "AmemError": "amem_core.errors",
    "Draft": "amem_core.domain.entries",
    "Entry": "amem_core.domain.entries",
    "Label": "amem_core.domain.labels",
    "Memory": "amem_core.memory",
    "Session": "amem_core.session",
    "Status": "amem_core.domain.labels",
    "Tier": "amem_core.domain.labels",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
