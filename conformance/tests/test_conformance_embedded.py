"""The suite, whole, on every backend that needs nothing but this process: the reference and the embedded ones."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from amem_conformance.loading import EMBEDDED


@pytest.mark.parametrize("key", EMBEDDED)
def test_an_embedded_backend_meets_every_requirement(
    key: str, amem_conformance: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = amem_conformance(key)
    assert done.returncode == 0, done.stdout + done.stderr
