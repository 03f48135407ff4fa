"""``amem demo``: what it shows, what it leaves behind, and what it says when something does not hold."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from driving import amem

from amem_core.errors import NotFoundError
from amem_launcher.cli import cli
from amem_launcher.commands.demo import play as playing
from amem_launcher.commands.demo.material import collect
from amem_launcher.commands.demo.stage import StepError

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in ("README.md", "AGENTS.md"):
        shutil.copy(REPOSITORY / name, folder)
    return folder


@pytest.fixture
def scratch(tmp_path):
    """Where temporary directories are made."""
    path = tmp_path / "scratch"
    path.mkdir()
    return path


def test_the_demo_shows_all_seven_steps_and_leaves_nothing_behind(docs, scratch, tmp_path):
    before = {path: path.read_bytes() for path in docs.iterdir()}
    shown = amem("demo", docs, "--json", root=tmp_path / "unused", TMPDIR=str(scratch)).json
    assert shown["held"] is True
    assert [step["number"] for step in shown["steps"]] == [1, 2, 3, 4, 5, 6, 7]
    assert {step["problem"] for step in shown["steps"]} == {""}
    went_on = shown["steps"][2]["evidence"]
    assert went_on["t0_tokens"] < 2_000 < went_on["transcript_tokens"]
    assert len(shown["steps"][5]["evidence"]["refusals"]) == 4
    assert list(scratch.iterdir()) == []
    assert {path: path.read_bytes() for path in docs.iterdir()} == before
    assert not (tmp_path / "unused").exists()


@pytest.fixture
def broken(monkeypatch):
    """A demo whose first step does not hold."""

    def fail(stage, material):
        message = "the sky is not blue"
        raise StepError(message)

    monkeypatch.setattr(playing, "begin", fail)


def test_a_step_that_does_not_hold_is_named_and_ends_the_demo(broken, docs):
    result = CliRunner().invoke(cli, ["demo", str(docs)])
    assert result.exit_code == 1
    assert "1. init makes a domain with a grants file … FAILED" in result.stdout
    assert "step 1 does not hold: the sky is not blue" in result.stderr
    assert "2." not in result.stdout


def test_with_keep_the_root_stays_and_is_named(broken, docs, scratch, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    result = CliRunner().invoke(cli, ["demo", str(docs), "--keep"])
    (kept,) = scratch.iterdir()
    assert str(kept / "root") in result.stderr


def test_without_a_folder_the_demo_takes_docs(docs, scratch, monkeypatch):
    monkeypatch.chdir(docs.parent)
    material = collect(None, str(scratch))
    assert (material.name, len(material.files)) == ("docs", 2)
    assert material.topics[0] != material.topics[1]


def test_without_docs_the_demo_takes_what_the_distribution_says_of_itself(scratch, monkeypatch):
    told = SimpleNamespace(json={"description": "# amem\n\nDurable memory.\n\n## Two commands\n\nRun them.\n"})
    monkeypatch.setattr("importlib.metadata.metadata", lambda name: told)
    monkeypatch.chdir(scratch)
    material = collect(None, str(scratch))
    assert [Path(file).name for file in material.files] == ["README.md"]


def test_without_any_material_the_demo_says_what_to_name(scratch, monkeypatch):
    monkeypatch.setattr("importlib.metadata.metadata", lambda name: SimpleNamespace(json={}))
    monkeypatch.chdir(scratch)
    with pytest.raises(NotFoundError) as caught:
        collect(None, str(scratch))
    assert caught.value.hint == "name a folder of Markdown files: amem demo PATH"
    (scratch / "empty.md").write_text("\n")
    for given in ("nowhere", "empty.md", "."):
        with pytest.raises(NotFoundError, match=given):
            collect(given, str(scratch))
