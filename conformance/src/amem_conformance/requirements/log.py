"""What is demanded of the Log port."""

from __future__ import annotations

from amem_conformance.manifest import Requirement

REQUIREMENTS: list[Requirement] = []
