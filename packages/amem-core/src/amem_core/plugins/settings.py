"""From a backend's table in ``amem.toml`` to an instance of its settings class.

Settings classes are plain frozen dataclasses or named tuples, so that a root with no table costs
nothing; a table is validated by pydantic, which is imported only then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amem_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


def build_settings(
    settings_class: type[Any], table: Mapping[str, Any] | None, *, where: str, environ: Mapping[str, str], root: str
) -> Any:
    """Return ``settings_class`` filled from ``table``; secret references are resolved.

    ``where`` names file and table for the messages, such as ``/r/amem.toml: [ledger.postgres]``.

    Raises:
        ConfigError: a key is unknown, missing or of the wrong type, or a secret is not set.
    """
    if not table:
        try:
            return settings_class()
        except TypeError as exc:
            message = f"{where} is not there, and must give {', '.join(_needed(settings_class))}"
            raise ConfigError(message, hint=f"keys: {', '.join(_keys(settings_class))}") from exc
    unknown = [key for key in table if key not in _keys(settings_class)]
    if unknown:
        message = f"{where}: unknown key {', '.join(unknown)}"
        raise ConfigError(message, hint=f"known here: {', '.join(_keys(settings_class)) or 'none'}")
    resolved = {key: _resolve(value, f"{where} {key}", environ, root) for key, value in table.items()}
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(settings_class).validate_python(resolved)
    except ValidationError as exc:
        found = exc.errors(include_input=False, include_url=False)
        for fault in found:
            said = fault.get("ctx", {}).get("error")
            if isinstance(said, ConfigError):
                raise ConfigError(f"{where}: {said}", hint=said.hint) from None
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc']) or 'table'}: {fault['msg']}" for fault in found
        )
        message = f"{where}: {faults}"
        raise ConfigError(message, hint="mend the keys that the message names") from None


def _keys(settings_class: type[Any]) -> tuple[str, ...]:
    return tuple(getattr(settings_class, "__dataclass_fields__", None) or settings_class._fields)


def _needed(settings_class: type[Any]) -> list[str]:
    """Return the keys that have no default."""
    from dataclasses import MISSING, fields, is_dataclass

    if is_dataclass(settings_class):
        return [
            each.name for each in fields(settings_class) if each.default is MISSING and each.default_factory is MISSING
        ]
    return [key for key in _keys(settings_class) if key not in getattr(settings_class, "_field_defaults", {})]


def _resolve(value: object, where: str, environ: Mapping[str, str], root: str) -> object:
    """Replace ``{ env = "NAME" }`` by the secret, from the environment or the root's ``credentials.env``."""
    if not (isinstance(value, dict) and set(value) == {"env"} and isinstance(value["env"], str)):
        return value
    name = value["env"]
    if name in environ:
        return environ[name]
    from amem_core.plugins.credentials import read_credentials

    secrets = read_credentials(root)
    if name in secrets:
        return secrets[name]
    message = f"{where}: the secret {name} is not set"
    raise ConfigError(message, hint=f"set {name} in the environment, or in credentials.env of the root (mode 600)")
