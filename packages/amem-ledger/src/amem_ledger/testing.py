"""How the conformance suite reaches these ledgers."""

from __future__ import annotations

from amem_core.testing import DirectoryHarness
from amem_ledger.postgres.testing import PostgresHarness

harness = DirectoryHarness()
postgres_harness = PostgresHarness()
