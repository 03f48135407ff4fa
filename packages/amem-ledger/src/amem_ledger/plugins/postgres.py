"""Declares the ledger ``postgres``."""

from __future__ import annotations

from amem_core.plugins.spec import BackendSpec


def amem_backends() -> list[BackendSpec]:
    """Return the backends of this module."""
    return [
        BackendSpec(
            port="ledger",
            name="postgres",
            api=(1, 0),
            settings="amem_ledger.config:PostgresSettings",
            factory="amem_ledger.postgres.ledger:open_ledger",
            extra="postgres",
            summary="the ledger in PostgreSQL, a schema for each domain",
        )
    ]
