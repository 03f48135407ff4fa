"""How the conformance suite reaches the embedded ledger."""

from __future__ import annotations

from amem_core.testing import DirectoryHarness

harness = DirectoryHarness()
