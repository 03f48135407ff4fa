"""Backends and how they are found: by name, from whichever distribution, one clear error each."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from amem_core import Memory
from amem_core.errors import (
    PluginConflictError,
    PluginIncompatibleError,
    PluginLoadError,
    PluginNotFoundError,
)
from amem_core.plugins.loader import load_backend, open_backend, plugin_manager
from amem_core.plugins.report import report
from amem_core.plugins.spec import BackendSpec

GOOD = """
from dataclasses import dataclass
from amem_core.plugins.spec import BackendSpec

@dataclass(frozen=True)
class Settings:
    pass

def amem_backends():
    return [BackendSpec(port="index", name="vespa", api=(1, 0), settings="{module}:Settings", factory="{module}:open_it")]

def open_it(root, settings):
    return ("opened", root)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs a distribution of one module with one entry point."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(dist, module, source, key="index.vespa", group="amem.backends"):
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(source).replace("{module}", module))
        info = tmp_path / f"{dist.replace('-', '_')}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{key} = {module}\n")

    yield install
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_a_strangers_backend_opens_once_the_configuration_allows_it(install):
    install("amem-vespa", "vespa_good", GOOD)
    spec = load_backend("index.vespa", allow=["index.vespa"])
    assert open_backend(spec, "/r") == ("opened", "/r")


def test_a_strangers_backend_that_is_not_allowed_is_refused_without_being_imported(install):
    install("amem-vespa", "vespa_shy", "raise SystemExit('imported')")
    with pytest.raises(PluginLoadError, match=r"amem-vespa 1\.2 is third-party") as caught:
        load_backend("index.vespa")
    assert "allow" in caught.value.hint
    assert "vespa_shy" not in sys.modules


def test_a_backend_that_nobody_brings_is_named_with_what_there_is_and_what_was_meant():
    with pytest.raises(PluginNotFoundError, match=r"index\.sqlit ") as caught:
        load_backend("index.sqlit ")
    assert "did you mean sqlite?" in caught.value.hint
    assert "memory, sqlite" in caught.value.hint


def test_two_distributions_with_one_name_are_both_named(install):
    install("amem-vespa", "vespa_one", GOOD)
    install("other-vespa", "vespa_two", GOOD)
    with pytest.raises(PluginConflictError, match="amem-vespa, other-vespa"):
        load_backend("index.vespa", allow=["index.vespa"])


def test_a_plugin_that_raises_on_import_is_one_error_with_distribution_cause_and_remedy(install):
    install("amem-vespa", "vespa_bad", "raise ZeroDivisionError('boom')")
    with pytest.raises(PluginLoadError, match=r"amem-vespa 1\.2.*ZeroDivisionError: boom") as caught:
        load_backend("index.vespa", allow=["index.vespa"])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "amem-vespa" in caught.value.hint


def test_a_broken_plugin_that_is_not_named_troubles_nobody(install):
    install("amem-vespa", "vespa_bad", "raise ZeroDivisionError('boom')")
    assert load_backend("index.sqlite").name == "sqlite"


@pytest.mark.parametrize(
    ("api", "remedy"), [("(2, 0)", "amem-core"), ("(1, 9)", "amem-core"), ("(0, 1)", "upgrade the plugin")]
)
def test_a_plugin_of_another_port_api_is_refused_with_both_versions(install, api, remedy):
    install("amem-vespa", "vespa_old", GOOD.replace("(1, 0)", api))
    with pytest.raises(PluginIncompatibleError, match=r"this amem-core serves 1\.0") as caught:
        load_backend("index.vespa", allow=["index.vespa"])
    assert remedy in caught.value.hint


def test_a_driver_that_is_missing_is_named_with_the_line_that_installs_it(install):
    install("amem-vespa", "vespa_lazy", GOOD.replace("api=", 'extra="vespa", api=') + "\nimport os\n")
    spec = load_backend("index.vespa", allow=["index.vespa"])
    missing = BackendSpec(
        port="index", name="vespa", api=(1, 0), settings=spec.settings, factory="vespa_driver_user:open", extra="vespa"
    )
    install("amem-driver", "vespa_driver_user", "import no_such_driver", key="index.other")
    with pytest.raises(PluginLoadError, match="needs no_such_driver") as caught:
        open_backend(missing, "/r")
    assert "amem[vespa]" in caught.value.hint


def test_every_embedded_backend_and_every_reference_adapter_loads_and_is_reported():
    found = {item.key: item for item in report()}
    assert {"store.files", "log.jsonl", "index.sqlite", "ledger.sqlite", "policy.rego", "tools.memory"} <= set(found)
    assert [item.problem for item in found.values() if item.distribution == "amem"] == [""] * sum(
        item.distribution == "amem" for item in found.values()
    )


def test_the_report_says_why_a_plugin_does_not_load(install):
    install("amem-vespa", "vespa_bad", "raise ZeroDivisionError('boom')")
    items = {item.key: item for item in report(allow=["index.vespa"])}
    assert "ZeroDivisionError: boom" in items["index.vespa"].problem
    assert {item.key: item for item in report()}["index.vespa"].problem == "not allowed"


def test_a_plugin_with_a_hook_that_does_not_exist_is_refused():
    class Mistyped:
        def amem_backend(self):
            return []

    with pytest.raises(PluginLoadError, match="amem_backend"):
        plugin_manager([Mistyped()])


def test_an_enabled_plugin_adds_its_checks_to_the_doctors_and_another_is_never_loaded(install, tmp_path):
    source = """
        from amem_core.domain.results import Check

        def amem_checks(root):
            return [Check(name="the moon", state="ok", detail=root)]
    """
    install("acme-tools", "acme_checks", source, key="acme", group="amem.plugins")
    install("acme-bad", "acme_bad", "raise SystemExit", key="bad", group="amem.plugins")
    root = str(tmp_path / "root")
    Memory.init(root, domain="notes")
    (tmp_path / "root" / "amem.toml").write_text('[plugins]\nenable = ["acme"]\n')
    with Memory.open(root) as memory:
        assert memory.doctor()[-1].name == "the moon"
    assert "acme_bad" not in sys.modules


def test_an_enabled_plugin_that_nobody_brings_is_named(tmp_path):
    root = str(tmp_path / "root")
    Memory.init(root, domain="notes")
    (tmp_path / "root" / "amem.toml").write_text('[plugins]\nenable = ["acme"]\n')
    with Memory.open(root) as memory, pytest.raises(PluginNotFoundError, match="acme") as caught:
        memory.doctor()
    assert "enable" in caught.value.hint


def test_a_strangers_backend_with_a_misspelt_hook_is_refused(install):
    install("amem-vespa", "vespa_typo", GOOD + "\ndef amem_bakends():\n    return []\n")
    with pytest.raises(PluginLoadError, match="amem_bakends"):
        load_backend("index.vespa", allow=["index.vespa"])


def test_hooks_are_called_by_their_names_alone():
    class Checks:
        def amem_checks(self, root):
            return [root]

    assert plugin_manager([Checks()]).hook.amem_checks(root="/r") == [["/r"]]


def test_importing_the_core_and_loading_a_backend_imports_no_driver():
    code = (
        "import sys, amem_core, amem_core.memory\n"
        "from amem_core.plugins.loader import load_backend\n"
        "for key in ('store.files', 'log.jsonl', 'index.sqlite', 'ledger.sqlite', 'policy.rego'): load_backend(key)\n"
        "heavy = {'mcp', 'psycopg', 's3fs', 'fsspec', 'tantivy', 'pysolr', 'regorus', 'botocore', 'starlette', 'pydantic',"
        " 'pluggy', 'yaml', 'asyncio', 'importlib.metadata', 'pathlib', 'logging'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
