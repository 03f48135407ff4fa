"""The table [ledger.postgres]: what it takes, what it refuses, and that no message has a secret."""

from __future__ import annotations

import subprocess
import sys

import pytest

from amem_core.errors import ConfigError, PluginLoadError, UnavailableError
from amem_core.plugins.loader import load_backend, open_backend
from amem_ledger.config import PostgresSettings

SECRET = "s3cret/pass"
DSN = "postgresql://amem:s3cret%2Fpass@127.0.0.1:1/memory"


def opened(tmp_path, table, environ=None):
    spec = load_backend("ledger.postgres")
    return open_backend(spec, str(tmp_path), table, where="amem.toml: [ledger.postgres]", environ=environ)


def test_the_dsn_is_a_secret_from_the_environment(tmp_path):
    ledger = opened(tmp_path, {"dsn": {"env": "LEDGER"}}, {"LEDGER": DSN})
    ledger.close()


def test_without_a_table_the_error_names_the_key_that_is_needed(tmp_path):
    with pytest.raises(ConfigError, match=r"\[ledger\.postgres\] is not there, and must give dsn$") as caught:
        opened(tmp_path, None)
    assert "dsn, schema, pool_min" in caught.value.hint


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dsn", " "),
        ("schema", "Amem"),
        ("schema", "a_b"),
        ("schema", "pgledger"),
        ("schema", "a" * 21),
        ("schema", 'a"; DROP SCHEMA public; --'),
        ("pool_min", -1),
        ("pool_min", 9),
        ("pool_max", 0),
        ("pool_max", 1001),
        ("wait", 0),
        ("connect_timeout", -1),
        ("statement_timeout", 86_401),
        ("lock_timeout", float("nan")),
        ("pool_max", "many"),
        ("host", "127.0.0.1"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path, key, value):
    with pytest.raises(ConfigError, match=key) as caught:
        opened(tmp_path, {"dsn": DSN, key: value})
    assert caught.value.hint
    assert not {"Value error", SECRET}.intersection(str(caught.value).split(": "))


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://amem:s3cret/pass@host/db",
        "postgresql://amem:12345/s3cret@host/db",
        "postgresql://amem:@s3cret@host/db",
        "password=s3cret/pass host",
        "nonsense s3cret/pass",
        "x://s3cret/pass",
    ],
)
def test_a_dsn_that_cannot_be_read_is_refused_without_repeating_it(tmp_path, dsn):
    with pytest.raises(ConfigError) as caught:
        opened(tmp_path, {"dsn": dsn})
    error = caught.value
    assert "%2F" in error.hint
    assert "s3cret" not in f"{error} {error.hint} {error.__cause__} {error.context}"
    assert error.__context__ is None


def test_the_settings_show_no_secret():
    assert "s3cret" not in repr(PostgresSettings(dsn=DSN))


def test_a_server_that_is_not_there_is_named_by_host_port_and_database_at_once(tmp_path):
    ledger = opened(tmp_path, {"dsn": DSN})
    with pytest.raises(
        UnavailableError, match=r"PostgreSQL at 127\.0\.0\.1:1, database memory cannot be reached"
    ) as caught:
        ledger.watermark("d")
    ledger.close()
    assert "refused" in str(caught.value)
    assert "start the server" in caught.value.hint
    assert "s3cret" not in f"{caught.value} {caught.value.__cause__} {caught.value.context}"
    assert "\n" not in str(caught.value)


def test_a_host_that_no_name_server_knows_is_said_to_be_that(tmp_path):
    ledger = opened(tmp_path, {"dsn": "postgresql://amem:s3cret@nowhere.invalid/memory"})
    with pytest.raises(UnavailableError, match=r"nowhere\.invalid:5432") as caught:
        ledger.watermark("d")
    ledger.close()
    assert "s3cret" not in str(caught.value)


def test_declaring_and_checking_the_backend_imports_no_driver():
    code = (
        "import sys; from amem_core.plugins.loader import load_backend; from amem_ledger.config import PostgresSettings;"
        " import amem_ledger.testing, amem_ledger.postgres;"
        " load_backend('ledger.postgres'); PostgresSettings(dsn='x');"
        " print(sorted({'psycopg', 'psycopg_pool', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("missing", ["psycopg", "psycopg_pool"])
def test_a_missing_driver_names_the_command_that_installs_it(tmp_path, monkeypatch, missing):
    for name in [name for name in sys.modules if name.startswith(("psycopg", "amem_ledger.postgres"))]:
        monkeypatch.delitem(sys.modules, name)

    class Absent:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == missing:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])
    with pytest.raises(PluginLoadError, match=missing) as caught:
        opened(tmp_path, {"dsn": DSN})
    assert caught.value.hint == "python -m pip install 'amem[postgres]'"
