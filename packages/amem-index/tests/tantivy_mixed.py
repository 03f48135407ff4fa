"""A harness for the conformance suite, in a module of its own, because a process of pytest's own imports it by name."""

from __future__ import annotations

from amem_core.testing import DirectoryHarness, Site


class Mixed(DirectoryHarness):
    """Takes in every third change, so that the suite meets what waits, what was taken in, and both at once."""

    def fresh(self) -> Site:
        """Return an empty root with that setting."""
        return Site(super().fresh().root, {"pending": 3})
