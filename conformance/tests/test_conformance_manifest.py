"""The manifest and the tests say the same: no promise without a test, no test without a promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amem_conformance.manifest import PORTS, Requirement, faults_of, requirements
from amem_core import ports


@pytest.fixture(scope="module")
def cited(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("collecting.py"))],
        cwd=tmp_path_factory.mktemp("collect"),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, list[str]] = json.loads(done.stderr)
    return result


def test_the_manifest_has_every_port_of_core() -> None:
    assert set(PORTS) == set(ports.API)


@pytest.mark.parametrize("port", PORTS)
def test_every_requirement_has_a_test(port: str, cited: dict[str, list[str]]) -> None:
    tested = {id for ids in cited.values() for id in ids}
    assert [requirement.id for requirement in requirements(port) if requirement.id not in tested] == []
    assert requirements(port), f"nothing is demanded of {port}"


def test_every_test_cites_a_requirement_that_is_declared(cited: dict[str, list[str]]) -> None:
    declared = {requirement.id for port in PORTS for requirement in requirements(port)}
    assert {test: ids for test, ids in cited.items() if not ids or not set(ids) <= declared} == {}


@pytest.mark.parametrize("port", PORTS)
def test_no_requirement_is_newer_than_its_port(port: str) -> None:
    assert [requirement for requirement in requirements(port) if requirement.added_in > ports.API[port]] == []


@pytest.mark.parametrize("port", PORTS)
def test_every_flag_that_a_requirement_needs_is_one_that_the_port_declares(port: str) -> None:
    module = __import__(f"amem_core.ports.{port}", fromlist=["x"])
    flags = getattr(module, f"{port.capitalize()}Capabilities")._fields
    assert [requirement.id for requirement in requirements(port) if not requirement.needs <= set(flags)] == []


def test_faults_of_a_list_are_named() -> None:
    good = Requirement(id="log:a:b", source="contract", behaviour="It is so.")
    assert list(faults_of("log", [good])) == []
    assert "twice" in "".join(faults_of("log", [good, good]))
    assert "form" in "".join(faults_of("store", [good]))
    assert "form" in "".join(faults_of("log", [Requirement(id="log:A", source="x", behaviour="y")]))
    assert "no source" in "".join(faults_of("log", [Requirement(id="log:a", source=" ", behaviour="y")]))
