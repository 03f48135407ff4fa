"""Collects the suite and says, as JSON, which requirements each test cites."""

from __future__ import annotations

import json
import sys

import pytest

from amem_conformance.cli import plugin_name
from amem_conformance.loading import REFERENCE


class Collector:
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        cited = {item.nodeid: [marker.args[0] for marker in item.iter_markers("requirement")] for item in session.items}
        sys.stderr.write(json.dumps(cited))


if __name__ == "__main__":
    keys = [f"--amem-backend={key}" for key in REFERENCE]
    options = ["--collect-only", "-qq", "-p", "no:cacheprovider", "-p", plugin_name(), *keys]
    sys.exit(pytest.main([*options, "--pyargs", "amem_conformance.suite"], plugins=[Collector()]))
