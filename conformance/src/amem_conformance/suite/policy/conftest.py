"""Every test of this suite opens its backend over the same grants."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amem_conformance.harness import Site
from amem_conformance.suite.policy._cases import GRANTS


@pytest.fixture
def grants(site: Site) -> Path:
    """The path of the site's grants."""
    return Path(os.path.join(site.root, "grants.toml"))


@pytest.fixture
def prepare(grants: Path) -> None:
    """Write the grants before the backend opens."""
    grants.write_text(GRANTS, encoding="utf-8")
