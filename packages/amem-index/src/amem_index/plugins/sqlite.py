"""Declares the embedded index, so that a root can name it without importing it."""

from __future__ import annotations

from amem_core.plugins.spec import BackendSpec


def amem_backends() -> list[BackendSpec]:
    """Return the backend ``index.sqlite``."""
    return [
        BackendSpec(
            port="index",
            name="sqlite",
            api=(1, 0),
            settings="amem_index.config:SqliteSettings",
            factory="amem_index.sqlite:open_index",
            summary="embedded: SQLite FTS5 in state/index.sqlite",
        )
    ]
