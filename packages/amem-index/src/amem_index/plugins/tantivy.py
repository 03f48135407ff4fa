"""Declares the index in Tantivy, so that a root can name it without importing it."""

from __future__ import annotations

from amem_core.plugins.spec import BackendSpec


def amem_backends() -> list[BackendSpec]:
    """Return the backend ``index.tantivy``."""
    return [
        BackendSpec(
            port="index",
            name="tantivy",
            api=(1, 0),
            settings="amem_index.config:TantivySettings",
            factory="amem_index.tantivy.index:open_index",
            extra="tantivy",
            summary="for large domains: Tantivy, a directory for each domain in state/tantivy",
        )
    ]
