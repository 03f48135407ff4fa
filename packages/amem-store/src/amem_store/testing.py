"""How the conformance suite reaches the embedded store and log."""

from __future__ import annotations

from amem_core.testing import DirectoryHarness

files_harness = DirectoryHarness()
jsonl_harness = DirectoryHarness()
