"""``amem.toml``: what is read, what is refused, and what each refusal names."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from amem_core.config import DEFAULTS, load_config
from amem_core.errors import ConfigError, UnknownFormatError
from amem_core.plugins.settings import build_settings


@dataclass(frozen=True)
class Needed:
    """Settings of a backend that cannot do without one of them."""

    dsn: str
    pool: int = 4


def configured(tmp_path, text):
    (tmp_path / "amem.toml").write_text(text)
    return load_config(str(tmp_path))


def built(tmp_path, table, environ=None):
    return build_settings(Needed, table, where="amem.toml: [ledger.x]", environ=environ or {}, root=str(tmp_path))


def test_with_no_file_everything_is_embedded(tmp_path):
    config = load_config(str(tmp_path))
    assert dict(config.backends) == DEFAULTS
    assert config.key("store") == "store.files"


def test_a_backend_its_table_and_the_plugins_that_may_load_are_read(tmp_path):
    config = configured(
        tmp_path,
        'format = 1\n[ledger]\nbackend = "postgres"\n[ledger.postgres]\ndsn = { env = "DSN" }\n'
        '[plugins]\nallow = ["index.vespa"]\n',
    )
    assert config.key("ledger") == "ledger.postgres"
    assert config.tables["ledger"] == {"dsn": {"env": "DSN"}}
    assert config.allow == ("index.vespa",)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("sotre = 1", "unknown key sotre"),
        ("[store]\nbakend = 'x'", "store.bakend"),
        ("[store]\nbackend = 3", "store.backend"),
        ("store = 'files'", "store must be a table"),
        ("[plugins]\nallow = 'index.vespa'", "plugins.allow"),
        ("[plugins]\nenabel = []", "plugins.enabel"),
        ("format = 'one'", "format must be"),
        ("format = true", "format must be"),
        ("[store", "is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_file_and_the_key(tmp_path, text, named):
    with pytest.raises(ConfigError, match=named) as caught:
        configured(tmp_path, text)
    assert str(tmp_path / "amem.toml") in str(caught.value)
    assert caught.value.hint


def test_a_file_of_a_newer_amem_is_refused_and_left_as_it_is(tmp_path):
    with pytest.raises(UnknownFormatError, match="format 2"):
        configured(tmp_path, "format = 2")
    assert (tmp_path / "amem.toml").read_text() == "format = 2"


def test_settings_are_filled_and_checked_by_the_backends_own_class(tmp_path):
    assert built(tmp_path, {"dsn": "x", "pool": 2}) == Needed("x", 2)
    with pytest.raises(ConfigError, match=r"\[ledger.x\].*pool"):
        built(tmp_path, {"dsn": "x", "pool": "many"})
    with pytest.raises(ConfigError, match="unknown key dns") as caught:
        built(tmp_path, {"dns": "x"})
    assert "dsn, pool" in caught.value.hint
    with pytest.raises(ConfigError, match="dsn"):
        built(tmp_path, None)


def test_a_secret_comes_from_the_environment_that_was_given_or_from_the_private_file(tmp_path):
    table = {"dsn": {"env": "DSN"}}
    assert built(tmp_path, table, {"DSN": "from env"}).dsn == "from env"
    path = tmp_path / "credentials.env"
    path.write_text("# secrets\n\nDSN=a=b\n")
    path.chmod(0o600)
    assert built(tmp_path, table).dsn == "a=b"


def test_a_secret_that_is_not_set_is_named_and_the_processs_own_environment_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setenv("DSN", "behind the back")
    with pytest.raises(ConfigError, match="the secret DSN is not set"):
        built(tmp_path, {"dsn": {"env": "DSN"}})


@pytest.mark.skipif(os.name != "posix", reason="other systems have no modes; the check is for POSIX alone")
def test_credentials_that_others_may_read_are_refused(tmp_path):
    path = tmp_path / "credentials.env"
    path.write_text("DSN=x\n")
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="others") as caught:
        built(tmp_path, {"dsn": {"env": "DSN"}})
    assert "chmod 600" in caught.value.hint


def test_no_error_shows_a_secrets_value(tmp_path):
    with pytest.raises(ConfigError) as caught:
        built(tmp_path, {"dsn": "x", "pool": {"env": "POOL"}}, {"POOL": "hunter2"})
    assert "hunter2" not in str(caught.value)
