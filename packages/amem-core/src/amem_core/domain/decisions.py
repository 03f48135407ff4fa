"""What a policy answers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Decision(NamedTuple):
    """Allow or deny, and why.

    ``reasons`` are sentences for the person or the model that asked. ``rules`` name the policy's
    rules that it rests on. ``obligations`` are what the caller must do when allowed, such as
    ``{"label": "internal"}``. ``version`` identifies policy and grants together.
    """

    allowed: bool
    reasons: tuple[str, ...]
    rules: tuple[str, ...]
    version: str
    obligations: Mapping[str, Any] = MappingProxyType({})
