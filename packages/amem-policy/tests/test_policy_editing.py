"""Adding a domain to grants.toml keeps what the owner wrote there."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from amem_core.domain.labels import Label
from amem_core.errors import ConfigError, ConflictError, InvalidError, UnavailableError
from amem_policy import editing
from amem_policy.grants import add_domain, parse_grants


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grants.toml"


def test_a_first_domain_makes_a_file_that_only_the_owner_reads(path: Path) -> None:
    add_domain(str(path), "notes")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    grants = parse_grants(path.read_bytes(), "g")
    assert grants.domains == {"notes": Label.internal}
    assert grants.destinations == {"model": Label.internal, "export": Label.internal}
    assert os.listdir(path.parent) == ["grants.toml"]


def test_what_stood_there_is_kept_byte_for_byte(path: Path) -> None:
    before = b"# mine\r\nformat = 1 # one\n[domains.\"a\"]   # first\nlabel = 'public'"
    path.write_bytes(before)
    add_domain(str(path), "notes", "confidential")
    assert path.read_bytes().startswith(before)
    assert parse_grants(path.read_bytes(), "g").domains == {"a": Label.public, "notes": Label.confidential}


def test_a_domain_that_is_there_is_a_conflict_and_changes_nothing(path: Path) -> None:
    add_domain(str(path), "notes")
    before = path.read_bytes()
    with pytest.raises(ConflictError):
        add_domain(str(path), "notes", Label.public)
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["format = 1\ndomains = { a = { } }\n", "[broken", "format = 1\nunknown = 1\n"])
def test_a_file_that_cannot_be_appended_to_is_refused_and_unchanged(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(ConfigError):
        add_domain(str(path), "notes")
    assert path.read_text() == text


@pytest.mark.parametrize("name", ["../x", "con", "", "A", "a b", 'x]\nlabel="public"'])
def test_a_name_that_is_no_domain_is_refused(path: Path, name: str) -> None:
    with pytest.raises(InvalidError):
        add_domain(str(path), name)
    assert not path.exists()


def test_a_label_that_is_none_is_refused(path: Path) -> None:
    with pytest.raises(InvalidError):
        add_domain(str(path), "notes", "secret")
    assert not path.exists()


def test_a_linked_file_is_changed_where_it_is(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere" / "real.toml"
    real.parent.mkdir()
    real.write_text("format = 1\n")
    path.symlink_to(real)
    add_domain(str(path), "notes")
    assert path.is_symlink()
    assert "notes" in real.read_text()


def test_a_missing_directory_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    missing = str(tmp_path / "nowhere" / "grants.toml")
    with pytest.raises(UnavailableError) as caught:
        add_domain(missing, "notes")
    assert missing in str(caught.value)


@pytest.mark.parametrize("step", ["fsync", "replace", "open"])
def test_a_disk_that_is_full_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    add_domain(str(path), "notes")
    before = path.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(editing.os, step, full)
        with pytest.raises(UnavailableError) as caught:
            add_domain(str(path), "more")
    assert "No space left" in str(caught.value)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["grants.toml"]


def test_domains_that_are_added_at_once_are_all_there(path: Path) -> None:
    names = [f"d{number}" for number in range(12)]
    threads = [threading.Thread(target=add_domain, args=(str(path), name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(parse_grants(path.read_bytes(), "g").domains) == set(names)
