"""The settings of this distribution's backends; importing them imports no driver."""

from __future__ import annotations

from dataclasses import dataclass

from amem_core.errors import ConfigError

_LONGEST_WAIT = 3600.0
_SMALLEST_CACHE = 1
_LARGEST_CACHE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteSettings:
    """The table ``[index.sqlite]``.

    Attributes:
        busy_seconds: how long to wait for another writer before it is an error.
        cache_mib: how many MiB of pages each thread's connection may keep.

    Raises:
        ConfigError: a value is out of its range.
    """

    busy_seconds: float = 10.0
    cache_mib: int = 8

    def __post_init__(self) -> None:
        """Check the ranges."""
        _check("busy_seconds", self.busy_seconds, 0.0, _LONGEST_WAIT)
        _check("cache_mib", self.cache_mib, _SMALLEST_CACHE, _LARGEST_CACHE)


def _check(name: str, value: object, lowest: float, highest: float) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and lowest <= float(str(value)) <= highest:
        return
    message = f"[index.sqlite] {name} = {value!r} is not a number from {lowest:g} to {highest:g}"
    raise ConfigError(message, hint=f"correct {name} in amem.toml, or leave it out")
