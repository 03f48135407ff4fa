"""How memory comes in from Markdown."""

from __future__ import annotations

import os
import shutil

import pytest

from amem_core import Draft
from amem_core.errors import InvalidError


def fact(title="A fact", summary="it is so", **fields):
    return Draft(domain="notes", type="fact", title=title, summary=summary, **fields)


@pytest.fixture
def tree(tmp_path):
    top = tmp_path / "docs"
    (top / "deep").mkdir(parents=True)
    (top / "birds.md").write_text("# Birds\n\nAll of them.\n\n## Herons\n\nHerons fish.\n\n## Owls\n\nOwls do not.\n")
    (top / "deep" / "fish.md").write_bytes("\ufeff# Fish\r\n\r\nThey swim. See [birds](../birds.md).\r\n".encode())
    (top / "not.txt").write_text("herons too")
    return top


def test_a_tree_of_markdown_becomes_an_entry_per_section_and_a_second_run_writes_nothing(root, owner, tree):
    first = owner.ingest([str(tree)], domain="notes")
    assert (first.files, first.written) == (2, 4)
    hit = owner.search("herons").hits[0]
    assert hit.title == "Herons"
    assert hit.source[0].startswith(f"file:{tree}/birds.md#")
    log = os.path.join(root, "state", "log", "notes.jsonl")
    size = os.path.getsize(log)
    second = owner.ingest([str(tree)], domain="notes")
    assert (second.written, second.changed, second.unchanged, second.archived) == (0, 0, 4, 0)
    assert os.path.getsize(log) == size


def test_a_changed_section_is_a_new_version_and_a_removed_one_is_archived(owner, tree):
    owner.ingest([str(tree)], domain="notes")
    id = owner.search("herons").hits[0].id
    (tree / "birds.md").write_text("# Birds\n\nAll of them.\n\n## Herons\n\nHerons fish at night.\n")
    second = owner.ingest([str(tree)], domain="notes")
    assert (second.written, second.changed, second.archived) == (0, 1, 1)
    assert owner.get(id).entry.version == 2
    assert owner.search("owls").hits == ()
    assert owner.search("owls", filter="status = archived").hits[0].title == "Owls"


def test_a_dry_run_counts_and_writes_nothing(owner, tree):
    assert owner.ingest([str(tree)], domain="notes", dry_run=True).written == 4
    assert owner.search("herons").hits == ()


def test_a_file_that_is_gone_is_archived_and_one_that_cannot_be_read_is_not(owner, tree):
    owner.ingest([str(tree)], domain="notes")
    (tree / "birds.md").write_bytes(b"# Birds\n\n\xff\xfe broken\n")
    (tree / "deep" / "fish.md").unlink()
    second = owner.ingest([str(tree)], domain="notes")
    assert second.archived == 1
    assert [os.path.basename(item.path) for item in second.broken] == ["birds.md"]
    assert len(owner.search("herons").hits) == 1


def test_a_path_that_is_not_there_archives_nothing(owner, tree):
    owner.ingest([str(tree)], domain="notes")
    shutil.move(tree, tree.parent / "moved")
    with pytest.raises(InvalidError, match="no file and no directory"):
        owner.ingest([str(tree)], domain="notes")
    assert len(owner.search("herons").hits) == 1
