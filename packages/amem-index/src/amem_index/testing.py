"""How the conformance suite reaches the indexes of this distribution."""

from __future__ import annotations

from amem_core.testing import DirectoryHarness

harness = DirectoryHarness()
tantivy_harness = DirectoryHarness()
