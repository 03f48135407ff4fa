"""What must hold of the repository as a whole."""

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PACKAGES = sorted([*(ROOT / "packages").glob("amem-*"), ROOT / "conformance"])
PROJECTS = [*PACKAGES, ROOT]
LOCKS = [ROOT / "constraints.txt", ROOT / "requirements" / "runtime.txt"]
# In parts, so that this file passes its own test.
REGISTRIES = [
    "py" + "pi.org",
    "python" + "hosted.org",
    "npm" + "js.org",
    "npm" + "js.com",
    "crates" + ".io",
    "proxy.golang" + ".org",
    "repo1.maven" + ".org",
    "repo.maven.apache" + ".org",
    "deb.debian" + ".org",
]
MACHINE_PATH = re.compile(r"(?<![\w.}\]*-])/(?:ro" + r"ot|wo" + r"rk)/[\w.]")
MAX_LINES = 600


def name_of(path: Path) -> str:
    return path.name if path != ROOT else "amem"


@cache
def project(path: Path) -> dict:
    return tomllib.loads((path / "pyproject.toml").read_text())["project"]


def requirements(path: Path) -> list[Requirement]:
    groups = [project(path)["dependencies"], *project(path).get("optional-dependencies", {}).values()]
    return [Requirement(line) for group in groups for line in group]


def siblings() -> set[str]:
    return {project(path)["name"] for path in PROJECTS}


@cache
def tracked() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def texts() -> list[tuple[Path, str]]:
    found = []
    for path in tracked():
        data = path.read_bytes()
        if b"\0" not in data:
            found.append((path.relative_to(ROOT), data.decode("utf-8", "replace")))
    return found


def locked(path: Path) -> dict[str, Version]:
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", path.read_text(), re.MULTILINE)
    return {canonicalize_name(name): Version(version) for name, version in pins}


def test_versions_are_in_lock_step():
    assert len({project(path)["version"] for path in PROJECTS}) == 1


@pytest.mark.parametrize("path", PROJECTS, ids=name_of)
def test_siblings_are_pinned_to_the_lock_step_version(path):
    version = project(ROOT)["version"]
    for requirement in requirements(path):
        if requirement.name in siblings() - {project(path)["name"]}:
            assert str(requirement.specifier) == f"=={version}", requirement


def test_the_changelog_has_a_section_for_the_lock_step_version():
    assert f"## {project(ROOT)['version']}" in (ROOT / "CHANGELOG.md").read_text()


def test_amem_brings_every_package_but_the_conformance_suite():
    brought = {Requirement(line).name for line in project(ROOT)["dependencies"]}
    assert brought == {path.name for path in (ROOT / "packages").glob("amem-*")}


@pytest.mark.parametrize("path", PROJECTS, ids=name_of)
def test_metadata_is_alike(path):
    assert project(path)["requires-python"] == ">=3.11"
    assert project(path)["license"] == "Apache-2.0"
    assert (path / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (path / project(path)["readme"]).read_text().startswith(f"# {project(path)['name']}\n")


@pytest.mark.parametrize("path", PACKAGES, ids=name_of)
def test_every_package_is_typed(path):
    (module,) = [found.parent for found in (path / "src").glob("*/__init__.py")]
    assert (module / "py.typed").exists()


@pytest.mark.parametrize("path", PACKAGES, ids=name_of)
def test_every_entry_point_and_script_names_a_module_that_exists(path):
    groups = [project(path).get("scripts", {}), *project(path).get("entry-points", {}).values()]
    for group in groups:
        for key, value in group.items():
            module = path / "src" / Path(*value.partition(":")[0].split("."))
            exists = module.with_suffix(".py").exists() or (module / "__init__.py").exists()
            assert exists, f"{key} = {value}"


@pytest.mark.parametrize("path", PACKAGES, ids=name_of)
def test_no_source_file_is_too_long(path):
    lengths = {file: len(file.read_text().splitlines()) for file in (path / "src").rglob("*.py")}
    assert {str(file): length for file, length in lengths.items() if length > MAX_LINES} == {}


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_locks_hold_pins_and_hashes_and_no_address(path):
    text = path.read_text()
    assert "://" not in text
    assert not re.search(r"^\s*-", text.replace("    --hash=sha256:", ""), re.MULTILINE)
    blocks = re.split(r"\n(?=[A-Za-z0-9])", text)[1:]
    assert blocks
    for block in blocks:
        assert re.match(r"[\w.-]+==\S+", block), block
        assert "--hash=sha256:" in block, block


def test_locks_satisfy_every_declared_dependency():
    everything, runtime = (locked(path) for path in LOCKS)
    assert runtime.items() <= everything.items()
    for path in PACKAGES:
        for requirement in requirements(path):
            if requirement.name not in siblings():
                assert everything[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_no_file_names_a_package_registry():
    named = [(str(path), host) for path, text in texts() for host in REGISTRIES if host in text]
    assert named == []


def test_no_file_holds_a_path_of_one_machine():
    named = [(str(path), found.group()) for path, text in texts() for found in MACHINE_PATH.finditer(text)]
    assert named == []


def test_continuous_integration_runs_the_command_of_the_readme():
    command = "python -m pip install nox && nox"
    for name in ("README.md", ".ci/run"):
        assert command in map(str.strip, (ROOT / name).read_text().splitlines()), name
