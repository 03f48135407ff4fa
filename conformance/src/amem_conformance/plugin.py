"""The pytest plugin: chooses backends, opens them for the suite's tests, and tells five outcomes apart.

A test of the suite passes or fails. A requirement that needs a capability which the backend does not
declare is ``unsupported``, a backend whose harness or service cannot start is ``unavailable``, and both
are listed by name at the end of the run: a run is never green because something was not there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from amem_conformance.cells import Outcome, Tally, missing_flags
from amem_conformance.harness import Harness, Opened, Raw, Site
from amem_conformance.loading import EMBEDDED, find_harness, open_at, port_of, service_of, started
from amem_conformance.manifest import PORTS, Requirement, requirements
from amem_conformance.report import check_target, write_report
from amem_conformance.services.lending import asked, end_as_unavailable
from amem_core.errors import AmemError, UnavailableError
from amem_core.testing import FrozenClock

_SUITE: Final = "amem_conformance.suite."
_ORDINARY: Final = "ordinary"


class Run:
    """One session: which backends, their started harnesses, and the tally."""

    def __init__(self, config: pytest.Config) -> None:
        self.keys = _given(config, "amem_backend") or list(EMBEDDED)
        self.required = asked(config)
        self.targets = [check_target(path) for path in _given(config, "amem_report")]
        self.given = dict(pair.split("=", 1) for pair in _given(config, "amem_harness"))
        self.only = frozenset(_given(config, "amem_only"))
        self.tally = Tally()
        self.stack = ExitStack()
        self._started: dict[str, Harness | UnavailableError] = {}
        self._capabilities: dict[str, object] = {}
        self._requirements: dict[str, dict[str, Requirement]] = {}
        for key in self.keys:
            port_of(key)

    def keys_of(self, port: str) -> list[str]:
        """Return the chosen backends of one port."""
        return [key for key in self.keys if port_of(key) == port]

    def declared(self, port: str) -> dict[str, Requirement]:
        """Return the port's requirements by id."""
        if port not in self._requirements:
            self._requirements[port] = {requirement.id: requirement for requirement in requirements(port)}
        return self._requirements[port]

    def harness(self, key: str) -> Harness:
        """Return the backend's harness, started once for the session.

        Raises:
            UnavailableError: it could not be started; the same error each time.
        """
        if key not in self._started:
            try:
                found = find_harness(key, self.given.get(key))
                scratch = self.stack.enter_context(TemporaryDirectory(prefix="amem-conformance-"))
                self._started[key] = self.stack.enter_context(started(found, Path(scratch)))
            except UnavailableError as error:
                self._started[key] = error
        result = self._started[key]
        if isinstance(result, UnavailableError):
            raise result
        return result

    def services(self, key: str) -> list[str]:
        """Return the names of the services that the backend needs."""
        name = service_of(find_harness(key, self.given.get(key)))
        return [] if name is None else [name]

    def capabilities(self, key: str) -> object:
        """Return what the backend declares, asked once on a site of its own."""
        if key not in self._capabilities:
            harness = self.harness(key)
            opened = open_at(key, harness, harness.fresh())
            try:
                self._capabilities[key] = opened.capabilities
            finally:
                opened.close()
        return self._capabilities[key]


class Openings:
    """The instances that one test has open on one site; all are closed when it ends."""

    def __init__(self, key: str, harness: Harness, site: Site) -> None:
        self._key = key
        self._harness = harness
        self._site = site
        self._open: list[Opened] = []
        self._main: Opened | None = None

    def main(self) -> Opened:
        """Return the instance under test, opened when first asked for."""
        if self._main is None:
            self._main = self.another()
        return self._main

    def another(self) -> Opened:
        """Open one more instance."""
        opened = open_at(self._key, self._harness, self._site)
        self._open.append(opened)
        return opened

    def reopen(self) -> Opened:
        """Close the instance under test and open a new one in its place."""
        if self._main is not None:
            self._main.close()
            self._open.remove(self._main)
        self._main = None
        return self.main()

    def close(self) -> None:
        """Close what is still open, the last one first."""
        with ExitStack() as stack:
            for opened in self._open:
                stack.callback(opened.close)


_RUN: Final = pytest.StashKey[Run]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the suite's options."""
    group = parser.getgroup("amem", "conformance of amem's backends")
    group.addoption("--amem-backend", action="append", default=[], metavar="KEY", help="a backend, <port>.<name>")
    group.addoption(
        "--amem-require",
        metavar="all|none|NAME,…",
        help="fail where a backend or a service (ledger.postgres, postgres) is unavailable; AMEM_REQUIRE says it too",
    )
    group.addoption("--amem-report", action="append", default=[], metavar="FILE", help="write the matrix (.json, .md)")
    group.addoption(
        "--amem-only", action="append", default=[], metavar="ID", help="run the tests of a requirement only"
    )
    group.addoption(
        "--amem-harness", action="append", default=[], metavar="KEY=MODULE:OBJECT", help="the harness of a backend"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Check the options before anything is collected."""
    config.addinivalue_line("markers", "requirement(id): the requirement of the manifest that the test exercises")
    try:
        config.stash[_RUN] = Run(config)
    except (AmemError, ValueError) as error:
        message = f"{error} ({getattr(error, 'hint', '') or 'KEY=module:object'})"
        raise pytest.UsageError(message) from error


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop what was started."""
    run = config.stash.get(_RUN, None)
    if run is not None:
        run.stack.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test of the suite once for each chosen backend of its port."""
    port = _port(metafunc.function.__module__)
    if port is None:
        return
    if "amem_key" not in metafunc.fixturenames:
        metafunc.fixturenames.append("amem_key")
    metafunc.parametrize("amem_key", metafunc.config.stash[_RUN].keys_of(port), scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop what was not asked for; refuse a test of the suite that cites nothing that is declared."""
    run = config.stash[_RUN]
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        port = _port_of_item(item)
        if port is None or (run.keys_of(port) and (not run.only or run.only.intersection(_cited(item)))):
            kept.append(item)
        else:
            dropped.append(item)
        if port is not None:
            _check_cited(item, run.declared(port))
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start the backend, and end the test here when the backend is not there or lacks a capability."""
    port = _port_of_item(item)
    if port is None or not isinstance(item, pytest.Function):
        return
    run = item.config.stash[_RUN]
    key = _key_of_item(item)
    ids = _cited(item)
    try:
        capabilities = run.capabilities(key)
    except UnavailableError as error:
        _note(item, key, ids, Outcome.unavailable.name)
        end_as_unavailable(run.required, f"{key}: {error}", key, *run.services(key))
    missing = sorted({flag for id in ids for flag in missing_flags(run.declared(port)[id], capabilities)})
    if missing:
        _note(item, key, ids, Outcome.unsupported.name)
        pytest.skip(f"unsupported: {key} declares no {', '.join(missing)}")
    _note(item, key, ids, _ORDINARY)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the matrix, once, where all reports come together."""
    if hasattr(session.config, "workerinput"):
        return
    run = session.config.stash[_RUN]
    for path in run.targets:
        write_report(path, run.tally.cells(run.keys))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name every cell that did not run for want of a capability or a backend."""
    run = config.stash[_RUN]
    for outcome in (Outcome.unsupported, Outcome.unavailable):
        found = [(key, note) for key, note in run.tally.outcomes.items() if note is outcome]
        if found:
            terminalreporter.section(f"amem: {outcome}")
            for (backend, id), _ in sorted(found):
                terminalreporter.line(f"{backend}  {id}  {'; '.join(run.tally.notes[backend, id])}")


class _Recorder:
    """Reads outcomes from reports, so that it works in one process and in many."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a test's outcome into the tally."""
        noted = [str(value) for name, value in report.user_properties if name == "amem"]
        if not noted:
            return
        key, special, *ids = noted[-1].split(" ")
        if special != _ORDINARY:
            if report.when == "setup":
                self._run.tally.record(key, ids, Outcome[special], _reason(report))
        elif report.failed:
            self._run.tally.record(key, ids, Outcome.failed, report.nodeid)
        elif report.skipped:
            # A test that finds out for itself that the backend has not what it needs is listed as well.
            self._run.tally.record(key, ids, Outcome.unsupported, _reason(report))
        elif report.when == "call":
            self._run.tally.record(key, ids, Outcome.passed)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Listen to reports."""
    session.config.pluginmanager.register(_Recorder(session.config.stash[_RUN]), "amem-recorder")


@pytest.fixture(scope="session")
def harness(amem_key: str, request: pytest.FixtureRequest) -> Harness:
    """The started harness of the backend under test."""
    return request.config.stash[_RUN].harness(amem_key)


@pytest.fixture(scope="session")
def fresh(amem_key: str, harness: Harness) -> Callable[[], AbstractContextManager[Opened]]:
    """Opens the backend on a site of its own, each time it is called: for tests with many examples."""

    @contextmanager
    def opened() -> Generator[Opened]:
        port = open_at(amem_key, harness, harness.fresh())
        try:
            yield port
        finally:
            port.close()

    return opened


@pytest.fixture
def site(harness: Harness) -> Site:
    """An isolated, empty site."""
    return harness.fresh()


@pytest.fixture
def prepare() -> None:
    """What must be on the site before the backend opens; a suite that needs something overrides it."""


@pytest.fixture
def openings(amem_key: str, harness: Harness, site: Site, prepare: None) -> Iterator[Openings]:  # noqa: ARG001  (order)
    """Every instance that the test opens; closed at its end."""
    opened = Openings(amem_key, harness, site)
    yield opened
    opened.close()


@pytest.fixture
def backend(openings: Openings) -> Opened:
    """The backend under test, opened on ``site``."""
    return openings.main()


@pytest.fixture
def reopen(openings: Openings) -> Callable[[], Opened]:
    """Closes the backend and returns a newly opened one on the same site."""
    return openings.reopen


@pytest.fixture
def second(openings: Openings) -> Callable[[], Opened]:
    """Opens another instance on the same site while the first stays open."""
    return openings.another


@pytest.fixture
def raw(harness: Harness, site: Site) -> Raw | None:
    """Access to the stored bytes, or None when the backend keeps none."""
    return harness.raw(site)


@pytest.fixture
def clock() -> FrozenClock:
    """A clock that moves when told."""
    return FrozenClock()


def _given(config: pytest.Config, option: str) -> list[str]:
    """Return the values of an option that may be repeated."""
    return list(config.getoption(option) or ())


def _port(module: str) -> str | None:
    """Return the port whose suite the module belongs to, None for a module outside the suite."""
    if not module.startswith(_SUITE):
        return None
    port = module.removeprefix(_SUITE).partition(".")[0]
    return port if port in PORTS else None


def _port_of_item(item: pytest.Item) -> str | None:
    if not isinstance(item, pytest.Function):
        return None
    return _port(str(getattr(item.obj, "__module__", "")))


def _key_of_item(item: pytest.Function) -> str:
    return str(item.callspec.params["amem_key"])


def _cited(item: pytest.Item) -> list[str]:
    return [str(marker.args[0]) for marker in item.iter_markers("requirement") if marker.args]


def _check_cited(item: pytest.Item, declared: dict[str, Requirement]) -> None:
    ids = _cited(item)
    unknown = [id for id in ids if id not in declared]
    if unknown or not ids:
        what = f"cites {', '.join(unknown)}, which no manifest declares" if unknown else "cites no requirement"
        message = f"{item.nodeid} {what}; declare it in amem_conformance.requirements"
        raise pytest.UsageError(message)


def _note(item: pytest.Item, key: str, ids: list[str], special: str) -> None:
    """Attach to the item's reports what the tally needs, as text: reports cross processes."""
    item.user_properties.append(("amem", " ".join([key, special, *ids])))


def _reason(report: pytest.TestReport) -> str:
    """Return why a test was skipped or failed in setup, in one line."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(report.longrepr or "").strip().partition("\n")[0]
