"""A root whose index is in Tantivy, driven as its users do, and its answers beside those of the embedded index."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from driving import amem, environment

from amem_core import Memory

REPOSITORY = Path(__file__).parents[3]
TANTIVY = 'format = 1\n\n[index]\nbackend = "tantivy"\n\n[index.tantivy]\npending = 20\n'
QUESTIONS = """
how do we release
who may read a restricted entry
what happens when a write is cut short
reindex a damaged index
erase an entry and its receipt
claim a task under a lease
how often does a write wait for the disk
move memory to another root
two clocks, as of and valid at
policy grants per principal
import a bundle
complete commands in the shell
connect an MCP client
search in Chinese or Japanese text
hand edits in the record
what does exit code 2 mean
third-party backend not allowed
labels and ceilings of a session
the chain of the log
secrets in amem.toml
""".strip().splitlines()


def made(place: Path, configuration: str = "") -> Path:
    """Return a new root with one domain, set up as the text says."""
    root = place / "root"
    amem("init", "--domain", "notes", root=root)
    if configuration:
        (root / "amem.toml").write_text(configuration)
    return root


def titles(root: Path, question: str, *more: str) -> list[str]:
    return [
        hit["title"] for hit in amem("search", question, "--domain", "notes", "--json", *more, root=root).json["hits"]
    ]


def written(root: Path, title: str, summary: str) -> str:
    arguments = ("--domain", "notes", "--type", "fact", "--title", title, "--summary", summary, "--json")
    return str(amem("write", *arguments, root=root).json["id"])


def test_write_search_as_of_reindex_and_erase_through_the_command_line(tmp_path: Path) -> None:
    root = made(tmp_path, TANTIVY)
    first = written(root, "Walrus", "The walrus is grey")
    for number in range(25):
        last = written(root, f"Oyster {number}", f"An oyster with the number{number}")
    assert titles(root, "walrus") == ["Walrus"]
    assert titles(root, "number17") == ["Oyster 17"]
    before = amem("get", last, "--json", root=root).json["entry"]["updated"]
    again = ("--id", first, "--domain", "notes", "--type", "fact", "--title", "Walrus", "--summary", "It is brown")
    amem("write", *again, root=root)
    assert titles(root, "grey") == []
    assert titles(root, "brown") == ["Walrus"]
    assert titles(root, "grey", "--as-of", before) == ["Walrus"]
    assert len(list((root / "state" / "tantivy" / "notes").iterdir())) == 1
    answers = [amem("search", text, "--json", root=root).json for text in ("walrus", "oyster number3", "an")]
    amem("reindex", root=root)
    assert [amem("search", text, "--json", root=root).json for text in ("walrus", "oyster number3", "an")] == answers
    assert "index.tantivy" in amem("doctor", root=root).out
    amem("erase", first, "--reason", "requested", "--yes", root=root)
    assert titles(root, "brown") == titles(root, "walrus") == []
    assert titles(root, "grey", "--as-of", before) == []
    held = [path for path in root.rglob("*") if path.is_file() and b"brown" in path.read_bytes()]
    assert held == []


def test_a_root_changes_its_index_by_its_configuration_and_a_reindex(tmp_path: Path) -> None:
    root = made(tmp_path)
    written(root, "Walrus", "The walrus is grey")
    (root / "amem.toml").write_text(TANTIVY)
    assert titles(root, "walrus") == ["Walrus"]
    amem("reindex", root=root)
    assert titles(root, "walrus") == ["Walrus"]
    (root / "amem.toml").unlink()
    written(root, "Carpenter", "He came along")
    (root / "amem.toml").write_text(TANTIVY)
    assert titles(root, "carpenter") == ["Carpenter"]


def test_its_answers_mostly_agree_with_those_of_the_embedded_index(tmp_path: Path) -> None:
    found: list[list[list[str]]] = []
    for name, configuration in (("embedded", ""), ("tantivy", TANTIVY)):
        root = made(tmp_path / name, configuration)
        with Memory.open(str(root)) as memory, memory.session(author="owner") as session:
            session.ingest([str(REPOSITORY / "docs")], domain="notes")
            found.append([[hit.title for hit in session.search(text, limit=10).hits] for text in QUESTIONS])
    pairs = list(zip(*found, strict=True))
    shares = [len({*ours[:5]} & {*theirs[:5]}) / 5 for ours, theirs in pairs]
    assert all(ours and theirs for ours, theirs in pairs)
    assert sum(ours[0] == theirs[0] for ours, theirs in pairs) >= 15
    assert sum(shares) / len(shares) >= 0.8


@pytest.mark.parametrize("part", ["test_times or test_listing or test_filters", "test_writes", "test_together"])
def test_the_suite_passes_where_every_third_change_is_taken_in(part: str) -> None:
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    harness = "index.tantivy=tantivy_mixed:Mixed"
    done = subprocess.run(
        [sys.executable, "-m", "amem_conformance.cli", "index.tantivy", "--amem-harness", harness, "-q", "-k", part],
        env=environment() | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
