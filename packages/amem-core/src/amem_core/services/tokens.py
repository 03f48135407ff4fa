"""Counting tokens with no model at hand: an estimate that errs on the high side for prose."""

from __future__ import annotations

import math

CHARACTERS_PER_TOKEN = 4


def count_tokens(text: str) -> int:
    """Return the estimated number of tokens: a quarter of the ASCII characters and one for each other character."""
    other = 0 if text.isascii() else sum(1 for character in text if not character.isascii())
    return math.ceil((len(text) - other) / CHARACTERS_PER_TOKEN) + other
