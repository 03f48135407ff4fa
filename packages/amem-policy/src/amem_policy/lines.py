"""Which line of a TOML file states a key. Needed for messages alone, so that nothing else loads it."""

from __future__ import annotations

import tomllib
from typing import cast


def line_of(text: str, keys: tuple[str, ...]) -> int | None:
    """Return the line, from 1, that states ``keys``, or the nearest table around them; None when there is none."""
    best: tuple[int, int] | None = None
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        header = line.lstrip().startswith("[")
        for path in _paths(line):
            full = path if header else (*table, *path)
            depth = _shared(full, keys)
            if depth and depth == min(len(full), len(keys)) and (best is None or depth > best[0]):
                best = (depth, number)
        if header:
            table = next(iter(_paths(line)), table)
    return best[1] if best else None


def _paths(line: str) -> list[tuple[str, ...]]:
    """Return the dotted keys that one line states, taken alone."""
    try:
        found = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        # The beginning of a value that goes on in further lines: the key before the sign is enough.
        try:
            found = tomllib.loads(line.partition("=")[0] + "= 0") if "=" in line else {}
        except tomllib.TOMLDecodeError:
            return []
    return _leaves(found, ())


def _leaves(found: object, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    if isinstance(found, dict) and found:
        table = cast("dict[str, object]", found)
        return [leaf for key, value in table.items() for leaf in _leaves(value, (*path, key))]
    return [path] if path else []


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Return how many keys both have in common at the beginning."""
    for position, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return position
    return min(len(one), len(other))
