"""Runs the suite as a backend's author would: as a command, in a directory of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)


@pytest.fixture(scope="session")
def amem_conformance(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs ``amem-conformance`` with these arguments and returns what it said."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        directory = tmp_path_factory.mktemp("run")
        path = os.pathsep.join([HERE, *(entry for entry in sys.path if entry)])
        return subprocess.run(
            [sys.executable, "-m", "amem_conformance.cli", *arguments, "-q", "-p", "no:cacheprovider", "-W", "error"],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run
