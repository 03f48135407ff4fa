"""The settings of this distribution's backends; importing them imports no driver."""

from __future__ import annotations

from typing import NamedTuple

from amem_core.errors import ConfigError

_LONGEST_WAIT = 3600.0
_SMALLEST_CACHE = 1
_LARGEST_CACHE = 4096


class SqliteSettings(NamedTuple):
    """The table ``[index.sqlite]``.

    Attributes:
        busy_seconds: how long to wait for another writer before it is an error.
        cache_mib: how many MiB of pages each thread's connection may keep.
    """

    busy_seconds: float = 10.0
    cache_mib: int = 8


def check_settings(settings: SqliteSettings) -> SqliteSettings:
    """Return the settings when every value is in its range.

    Raises:
        ConfigError: one is not.
    """
    _check("busy_seconds", settings.busy_seconds, 0.0, _LONGEST_WAIT)
    _check("cache_mib", settings.cache_mib, _SMALLEST_CACHE, _LARGEST_CACHE)
    return settings


def _check(name: str, value: object, lowest: float, highest: float) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and lowest <= float(str(value)) <= highest:
        return
    message = f"[index.sqlite] {name} = {value!r} is not a number from {lowest:g} to {highest:g}"
    raise ConfigError(message, hint=f"correct {name} in amem.toml, or leave it out")
