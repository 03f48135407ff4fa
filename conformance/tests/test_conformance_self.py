"""The suite tested: a broken backend turns it red at the promise that it breaks, and nowhere is a gap in silence."""

from __future__ import annotations

import json
import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from amem_conformance.manifest import PORTS

# Test directories are no packages, so that the module is run by its path here and by its name in the suite's process.
BROKEN = runpy.run_path(str(Path(__file__).with_name("broken_backends.py")))
EXPECTED: dict[str, list[str]] = BROKEN["EXPECTED"]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def outcomes(report: Path) -> dict[str, str]:
    cells = json.loads(report.read_text())["cells"]
    return {cell["requirement"]: cell["outcome"] for cell in cells}


@pytest.mark.parametrize("port", PORTS)
def test_a_broken_backend_fails_at_the_promise_that_it_breaks(port: str, amem_conformance: Run, tmp_path: Path) -> None:
    names = {f"{port}.{name}": name for name in EXPECTED if name.startswith(f"{port}_")}
    wanted = {(key, id) for key, name in names.items() for id in EXPECTED[name]}
    report = tmp_path / "report.json"
    done = amem_conformance(
        *names,
        f"--amem-report={report}",
        *(f"--amem-harness={key}=broken_backends:{name}" for key, name in names.items()),
        *(f"--amem-only={id}" for id in sorted({id for _, id in wanted})),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    cells = json.loads(report.read_text())["cells"]
    failed = {(cell["backend"], cell["requirement"]) for cell in cells if cell["outcome"] == "failed"}
    assert sorted(wanted - failed) == []


def test_every_broken_backend_has_an_expectation() -> None:
    harnesses = {name for name, value in BROKEN.items() if isinstance(value, BROKEN["BrokenHarness"])}
    assert harnesses == set(EXPECTED)


def test_a_backend_that_is_not_there_is_named_and_fails_the_run(amem_conformance: Run, tmp_path: Path) -> None:
    arguments = ["tools.absent", "--amem-harness=tools.absent=absent_backend:harness"]
    report = tmp_path / "report.json"
    done = amem_conformance(*arguments, f"--amem-report={report}")
    assert done.returncode == 1
    assert "tools.absent" in done.stdout
    assert "no server at localhost:1" in done.stdout
    assert set(outcomes(report).values()) == {"unavailable"}
    lenient = amem_conformance(*arguments, "--amem-require=none")
    assert lenient.returncode == 0
    assert "amem: unavailable" in lenient.stdout
    assert "no server at localhost:1" in lenient.stdout


def test_a_capability_that_is_not_there_is_listed_by_name(amem_conformance: Run, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = amem_conformance("log.memory", f"--amem-report={report}", "--amem-only=log:process:writers")
    assert done.returncode == 0, done.stdout
    assert "amem: unsupported" in done.stdout
    assert "declares no multi_process" in done.stdout
    assert outcomes(report)["log:process:writers"] == "unsupported"
    assert outcomes(report)["log:append:numbers"] == "not run"


def test_the_matrix_is_written_for_people_too(amem_conformance: Run, tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    done = amem_conformance("tools.memory", f"--amem-report={report}")
    assert done.returncode == 0, done.stdout
    text = report.read_text()
    assert "| requirement | behaviour | tools.memory |" in text
    assert "| `tools:names:sorted` |" in text
    assert "FAIL" not in text


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "usage: amem-conformance"),
        (["nonsense"], 2, "'nonsense' is not the key of a backend"),
        (["store."], 2, "is not the key of a backend"),
        (["tools.memory", "--amem-report=x.txt"], 4, "the suffix says no format"),
        (["tools.memory", "--amem-harness=tools.memory"], 4, "KEY=module:object"),
        (["tools.nobody"], 1, "registers a harness for 'tools.nobody'"),
        (["tools.nobody", "--amem-harness=tools.nobody=broken_backends:nothing"], 1, "broken_backends has no nothing"),
        (["tools.nobody", "--amem-harness=tools.nobody=nowhere:nothing"], 1, "nowhere:nothing does not load"),
    ],
)
def test_a_wrong_call_is_named(amem_conformance: Run, arguments: list[str], code: int, words: str) -> None:
    done = amem_conformance(*arguments)
    assert done.returncode == code, done.stdout + done.stderr
    assert words in done.stdout + done.stderr
