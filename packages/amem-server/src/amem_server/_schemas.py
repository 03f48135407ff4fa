"""JSON schemas in the short form that goes into a model's context with each list of tools."""

from __future__ import annotations

from typing import Any, cast

_NULL = {"type": "null"}


def shortened(schema: dict[str, Any]) -> dict[str, Any]:
    """Return ``schema`` with no titles, no references and no null beside a type: they tell a model nothing."""
    return _object(schema, schema.get("$defs", {}))


def _object(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _object({**definitions[name], **_without(schema, "$ref")}, definitions)
    options = [option for option in schema.get("anyOf", ()) if option != _NULL]
    if len(options) == 1:
        return _object({**options[0], **_without(schema, "anyOf")}, definitions)
    short: dict[str, Any] = {}
    for key, value in schema.items():
        if key in {"$defs", "title"} or (key == "default" and value is None):
            continue
        if key == "properties":
            short[key] = {name: _object(field, definitions) for name, field in value.items()}
        elif key == "description":
            short[key] = value.replace("``", "`")
        else:
            short[key] = _value(value, definitions)
    return short


def _value(value: object, definitions: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return _object(cast("dict[str, Any]", value), definitions)
    if isinstance(value, list):
        return [_value(item, definitions) for item in cast("list[object]", value)]
    return value


def _without(schema: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != key}
