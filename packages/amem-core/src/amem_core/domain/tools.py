"""What a tool that reaches the outside answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """``content`` is JSON; ``addresses`` are the hosts and ports that the call reached, in order."""

    content: Mapping[str, Any]
    addresses: tuple[str, ...]
