"""How memory comes in from Markdown and travels in bundles."""

from __future__ import annotations

import os
import shutil

import pytest

from amem_core import Draft, Label, Memory, Tier
from amem_core.errors import ConflictError, InvalidError


def fact(title="A fact", summary="it is so", **fields):
    return Draft(domain="notes", type="fact", title=title, summary=summary, **fields)


# -- ingest -----------------------------------------------------------------------------------------


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


# -- bundles ----------------------------------------------------------------------------------------


@pytest.fixture
def bundle(owner, tmp_path):
    owner.write(fact("Coding: Rules v1.2", "Use when: x # not a comment", aliases=("*Italic*",), label=Label.internal))
    owner.write(fact("Secret", "not to leave", label=Label.restricted))
    path = str(tmp_path / "bundle")
    exported = owner.export("notes", path)
    assert (exported.entries, exported.withheld, exported.highest_label) == (1, 1, Label.internal)
    return path


@pytest.fixture
def elsewhere(tmp_path):
    path = str(tmp_path / "elsewhere")
    Memory.init(path, domain="notes")
    with Memory.open(path) as memory, memory.session(author="owner") as session:
        yield session


def test_a_bundle_lands_at_raw_with_every_field_as_it_was(elsewhere, owner, bundle):
    ids = elsewhere.import_bundle(bundle).ids
    there, here = elsewhere.get(ids[0]).entry, owner.get(ids[0]).entry
    assert there.trust_tier is Tier.raw
    assert there == here
    assert len(elsewhere.search("rules").hits) == 1


def test_the_same_bundle_is_not_imported_twice(elsewhere, bundle):
    elsewhere.import_bundle(bundle)
    with pytest.raises(ConflictError, match="already"):
        elsewhere.import_bundle(bundle)


def entry_file(bundle):
    return os.path.join(bundle, "entries", os.listdir(os.path.join(bundle, "entries"))[0])


def edit(path, old, new):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert old in text
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))


def test_a_tampered_entry_is_refused_and_nothing_is_written(elsewhere, bundle):
    edit(entry_file(bundle), "Use when", "Never use when")
    with pytest.raises(InvalidError, match="digest"):
        elsewhere.import_bundle(bundle)
    assert elsewhere.search("rules").hits == ()


@pytest.mark.parametrize("path", ["../outside.md", "/etc/passwd", "entries/../../outside.md", "entries/x/../a.md"])
def test_a_path_that_leaves_the_bundle_is_refused(elsewhere, bundle, path):
    name = "entries/" + os.path.basename(entry_file(bundle))
    edit(os.path.join(bundle, "manifest.yaml"), f"path: {name}", f"path: {path}")
    with pytest.raises(InvalidError, match="path"):
        elsewhere.import_bundle(bundle)


def test_a_link_that_leaves_the_bundle_is_refused(elsewhere, bundle, tmp_path):
    outside = tmp_path / "outside.md"
    shutil.move(entry_file(bundle), outside)
    os.symlink(outside, os.path.join(bundle, "entries", "mem-" + "0" * 26 + ".md"))
    with pytest.raises(InvalidError):
        elsewhere.import_bundle(bundle)


def test_a_label_above_max_label_is_refused(elsewhere, bundle):
    manifest = os.path.join(bundle, "manifest.yaml")
    edit(manifest, "max_label: internal", "max_label: public")
    with pytest.raises(InvalidError, match="above max_label"):
        elsewhere.import_bundle(bundle)


def test_a_label_that_is_not_the_files_own_is_refused(elsewhere, bundle):
    manifest = os.path.join(bundle, "manifest.yaml")
    edit(manifest, "classification: internal", "classification: public")
    edit(manifest, "highest_label: internal", "highest_label: public")
    with pytest.raises(InvalidError, match="manifest says public"):
        elsewhere.import_bundle(bundle)


def test_an_id_in_use_in_another_domain_is_not_taken_over(root, owner, bundle):
    Memory.init(root, domain="other")
    with (
        Memory.open(root) as memory,
        memory.session(author="owner") as session,
        pytest.raises(ConflictError, match="in use elsewhere"),
    ):
        session.import_bundle(bundle, domain="other")


def test_what_was_erased_does_not_come_back_with_an_older_bundle(elsewhere, bundle):
    (id,) = elsewhere.import_bundle(bundle).ids
    elsewhere.erase(id, reason="requested")
    with pytest.raises(ConflictError, match="erased here"):
        elsewhere.import_bundle(bundle)
