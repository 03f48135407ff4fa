"""The settings of this distribution's backends; importing them imports no driver."""

from __future__ import annotations

from typing import NamedTuple

from amem_core.errors import ConfigError

_LONGEST_WAIT = 3600.0
_SMALLEST_CACHE = 1
_LARGEST_CACHE = 4096
# More waits in the memory of every process that reads.
_MOST_PENDING = 10_000
# Tantivy takes no less than 15 MB for a writer's thread.
_SMALLEST_MEMORY = 16


class SqliteSettings(NamedTuple):
    """The table ``[index.sqlite]``.

    Attributes:
        busy_seconds: how long to wait for another writer before it is an error.
        cache_mib: how many MiB of pages each thread's connection may keep.
    """

    busy_seconds: float = 10.0
    cache_mib: int = 8


class TantivySettings(NamedTuple):
    """The table ``[index.tantivy]``.

    Attributes:
        busy_seconds: how long to wait for another writer before it is an error.
        cache_mib: how many MiB of pages each thread's connection to the catalog may keep.
        pending: how many changed entries of a domain wait for Tantivy before they are taken in together.
        memory_mib: how many MiB Tantivy may use while it takes entries in.
    """

    busy_seconds: float = 10.0
    cache_mib: int = 8
    pending: int = 256
    memory_mib: int = 64


def check_settings(settings: SqliteSettings) -> SqliteSettings:
    """Return the settings when every value is in its range.

    Raises:
        ConfigError: one is not.
    """
    _check("sqlite", "busy_seconds", settings.busy_seconds, 0.0, _LONGEST_WAIT)
    _check("sqlite", "cache_mib", settings.cache_mib, _SMALLEST_CACHE, _LARGEST_CACHE)
    return settings


def check_tantivy(settings: TantivySettings) -> TantivySettings:
    """Return the settings when every value is in its range.

    Raises:
        ConfigError: one is not.
    """
    _check("tantivy", "busy_seconds", settings.busy_seconds, 0.0, _LONGEST_WAIT)
    _check("tantivy", "cache_mib", settings.cache_mib, _SMALLEST_CACHE, _LARGEST_CACHE)
    _check("tantivy", "pending", settings.pending, 1, _MOST_PENDING)
    _check("tantivy", "memory_mib", settings.memory_mib, _SMALLEST_MEMORY, _LARGEST_CACHE)
    return settings


def _check(table: str, name: str, value: object, lowest: float, highest: float) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and lowest <= float(str(value)) <= highest:
        return
    message = f"[index.{table}] {name} = {value!r} is not a number from {lowest:g} to {highest:g}"
    raise ConfigError(message, hint=f"correct {name} in amem.toml, or leave it out")
