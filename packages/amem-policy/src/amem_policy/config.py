"""The settings of the Rego backend. Imports no engine, so that a configuration can be checked without it."""

from __future__ import annotations

from typing import NamedTuple


class RegoSettings(NamedTuple):
    """The table ``[policy.rego]`` of ``amem.toml``.

    Attributes:
        bundle: a directory below the root; when it exists, its ``*.rego`` files replace the built-in policy.
    """

    bundle: str = "policy"
