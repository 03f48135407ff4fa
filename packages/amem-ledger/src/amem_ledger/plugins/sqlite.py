"""Declares the ledger ``sqlite``."""

from __future__ import annotations

from amem_core.plugins.spec import BackendSpec


def amem_backends() -> list[BackendSpec]:
    """Return the backends of this module."""
    return [
        BackendSpec(
            port="ledger",
            name="sqlite",
            api=(1, 0),
            settings="amem_ledger.config:SqliteSettings",
            factory="amem_ledger.sqlite:open_ledger",
            summary="the ledger as one SQLite file in the root",
        )
    ]
