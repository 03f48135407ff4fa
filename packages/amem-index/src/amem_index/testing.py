"""How the conformance suite reaches the embedded index."""

from __future__ import annotations

from amem_core.testing import DirectoryHarness

harness = DirectoryHarness()
