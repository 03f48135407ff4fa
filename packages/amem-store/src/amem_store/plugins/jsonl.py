"""Declares the log ``jsonl``."""

from __future__ import annotations

from amem_core.plugins.spec import BackendSpec


def amem_backends() -> list[BackendSpec]:
    """Return the backends of this module."""
    return [
        BackendSpec(
            port="log",
            name="jsonl",
            api=(1, 0),
            settings="amem_store.config:JsonlSettings",
            factory="amem_store.jsonl:open_log",
            summary="the event log as JSON lines in the root, one file for each domain",
        )
    ]
