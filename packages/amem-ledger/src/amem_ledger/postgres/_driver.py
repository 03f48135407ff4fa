"""The driver, and what to do when it is there without the library that it stands on."""

from __future__ import annotations

from amem_core.errors import PluginLoadError

try:
    import psycopg
except ModuleNotFoundError:
    # Not installed at all: whoever opens the backend says which extra brings it.
    raise
except ImportError as exc:
    message = f"ledger.postgres needs libpq, which psycopg does not find: {exc}"
    raise PluginLoadError(message, hint="python -m pip install 'amem[postgres]'") from exc

__all__ = ["psycopg"]
