"""``amem.toml``: which backend serves each port, and its settings.

Reading it imports no backend. A table named after a backend is validated later, by that backend's
own settings class, when the port is opened.
"""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from amem_core.errors import ConfigError, UnavailableError, UnknownFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = 1
FILE = "amem.toml"
# What makes a directory a root; its content is the policy's.
GRANTS = "grants.toml"
DEFAULTS = {
    "store": "files",
    "index": "sqlite",
    "ledger": "sqlite",
    "log": "jsonl",
    "policy": "rego",
    "tools": "memory",
}


class Config(NamedTuple):
    """The configuration of one root; ``path`` is the file it came from, or where it would be."""

    path: str
    backends: Mapping[str, str] = MappingProxyType(DEFAULTS)
    tables: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    allow: tuple[str, ...] = ()
    enable: tuple[str, ...] = ()

    def key(self, port: str) -> str:
        """Return ``<port>.<backend>``, the name under which the port's backend is registered."""
        return f"{port}.{self.backends[port]}"


def load_config(root: str) -> Config:
    """Read ``amem.toml`` of ``root``; with no file, everything is embedded.

    Raises:
        ConfigError: the file is no TOML, or a key is unknown or of the wrong type; file and key are named.
        UnknownFormatError: a newer amem wrote it.
        UnavailableError: the file is there and cannot be read.
    """
    path = os.path.join(root, FILE)
    if not os.path.lexists(path):
        return Config(path)
    import tomllib

    try:
        with open(path, "rb") as file:
            data = tomllib.load(file)
    except OSError as exc:
        message = f"{path} cannot be read: {exc.strerror}"
        raise UnavailableError(message, hint="give this user read permission on it") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        message = f"{path} is not TOML: {exc}"
        raise ConfigError(message, hint="mend the line that the message names") from exc
    return _checked(path, data)


def _checked(path: str, data: dict[str, Any]) -> Config:
    found = data.pop("format", FORMAT)
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise _wrong(path, "format", "a whole number from 1")
    if found > FORMAT:
        message = f"{path} has format {found}; this amem reads format {FORMAT}"
        raise UnknownFormatError(message, hint="upgrade amem")
    plugins = _table(path, "plugins", data.pop("plugins", {}))
    allow = _words(path, "plugins.allow", plugins.pop("allow", []))
    enable = _words(path, "plugins.enable", plugins.pop("enable", []))
    _no_more(path, "plugins.", plugins, ("allow", "enable"))
    backends = dict(DEFAULTS)
    tables: dict[str, Mapping[str, Any]] = {}
    for port, default in DEFAULTS.items():
        section = _table(path, port, data.pop(port, {}))
        name = section.pop("backend", default)
        if not isinstance(name, str) or not name:
            raise _wrong(path, f"{port}.backend", "the name of a backend")
        backends[port] = name
        if name in section:
            tables[port] = _table(path, f"{port}.{name}", section.pop(name))
        # A table of a backend that is not chosen is kept for the day it is; it is not validated.
        spare = {key: value for key, value in section.items() if not isinstance(value, dict)}
        _no_more(path, f"{port}.", spare, ("backend", name))
    _no_more(path, "", data, ("format", "plugins", *DEFAULTS))
    return Config(path, backends, tables, allow, enable)


def _wrong(path: str, key: str, expected: str) -> ConfigError:
    return ConfigError(f"{path}: {key} must be {expected}", hint=f"mend {key} in {path}")


def _table(path: str, key: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(path, key, "a table")
    return dict(value)


def _words(path: str, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(path, key, "a list of strings")
    return tuple(value)


def _no_more(path: str, prefix: str, rest: Mapping[str, Any], known: tuple[str, ...]) -> None:
    if rest:
        names = ", ".join(f"{prefix}{key}" for key in rest)
        message = f"{path}: unknown key {names}"
        raise ConfigError(message, hint=f"known here: {', '.join(prefix + key for key in known)}")
