"""What is demanded of the Policy port."""

from __future__ import annotations

from amem_conformance.manifest import Requirement

REQUIREMENTS: list[Requirement] = []
