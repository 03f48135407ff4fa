"""Declares the store ``files``."""

from __future__ import annotations

from amem_core.plugins.spec import BackendSpec


def amem_backends() -> list[BackendSpec]:
    """Return the backends of this module."""
    return [
        BackendSpec(
            port="store",
            name="files",
            api=(1, 0),
            settings="amem_store.config:FilesSettings",
            factory="amem_store.files:open_store",
            summary="the record as Markdown files in the root",
        )
    ]
