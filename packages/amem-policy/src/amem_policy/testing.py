"""How the conformance suite reaches the policy in process."""

from __future__ import annotations

from amem_core.testing import DirectoryHarness

harness = DirectoryHarness()
