"""What a shell offers for domains and ids: read from file names, so that a press of Tab opens nothing.

Only with the embedded store; a completion that knows nothing offers nothing and never fails.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

from amem_core.errors import AmemError
from amem_launcher.roots import find_root

if TYPE_CHECKING:
    import click

_MOST = 50


def domains(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the domains that have a place in the record and begin with ``incomplete``."""
    return [CompletionItem(name) for name in sorted(_names(_record(ctx))) if name.startswith(incomplete)]


def ids(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return ids that begin with ``incomplete``, the newest first, at most 50."""
    record = _record(ctx)
    found = [
        name.removesuffix(".md")
        for domain in _names(record)
        for name in _names(os.path.join(record, domain))
        if name.endswith(".md") and name.startswith(incomplete)
    ]
    return [CompletionItem(name) for name in sorted(found, reverse=True)[:_MOST]]


def _record(ctx: click.Context) -> str:
    try:
        root = find_root(getattr(ctx.obj, "root", None), os.environ)
    except AmemError:
        return os.devnull
    return os.path.join(root, "record")


def _names(path: str) -> list[str]:
    """Return the visible names in a directory; none when it cannot be read."""
    try:
        return [name for name in os.listdir(path) if not name.startswith(".")]
    except OSError:
        return []
