"""What may not come in with a bundle: it is refused before anything is written, and named."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from bundles import LONG, edit, entry_files, fact, kept, only, tamper

from amem_core import Memory
from amem_core.domain.labels import Status
from amem_core.errors import ConflictError, InvalidError


@pytest.fixture
def refused(elsewhere):
    """Import a bundle that must be refused with nothing written; return the error."""

    def import_it(path, error=InvalidError, match=""):
        before = kept(elsewhere.runtime.root)
        for dry_run in (True, False):
            with pytest.raises(error, match=match) as caught:
                elsewhere.import_bundle(str(path), dry_run=dry_run)
            assert kept(elsewhere.runtime.root) == before
        return caught.value

    return import_it


def test_the_same_bundle_is_not_imported_twice(elsewhere, bundle, refused):
    elsewhere.import_bundle(bundle)
    refused(bundle, ConflictError, "already")


def test_a_refused_import_names_what_is_refused_up_to_a_few(owner, elsewhere, refused, tmp_path):
    ids = [owner.write(fact(f"Fact {n}", f"number {n}")).id for n in range(9)]
    path = str(tmp_path / "many")
    owner.export("notes", path)
    for file in entry_files(path)[1:4]:
        edit(file, "Fact", "Fict")
    message = str(refused(path, InvalidError, "3 things"))
    assert [id in message for id in ids] == [False, True, True, True, *[False] * 5]
    for file in entry_files(path)[4:]:
        edit(file, "Fact", "Fict")
    assert "and 3 more" in str(refused(path, InvalidError, "8 things"))


def test_a_tampered_entry_is_refused(bundle, refused):
    edit(entry_files(bundle)[0], "Use when", "Never use when")
    refused(bundle, match="digest")


@pytest.mark.parametrize("path", ["../outside.md", "/etc/passwd", "entries/../../outside.md", "entries/x/../a.md"])
def test_a_path_that_leaves_the_bundle_is_refused(bundle, path, refused):
    name = "entries/" + os.path.basename(entry_files(bundle)[0])
    edit(os.path.join(bundle, "manifest.yaml"), f"path: {name}", f"path: {path}")
    refused(bundle, match="path")


def test_a_link_that_leaves_the_bundle_is_refused(bundle, tmp_path, refused):
    outside = tmp_path / "outside.md"
    (file,) = entry_files(bundle)
    shutil.move(file, outside)
    os.symlink(outside, file)
    refused(bundle, match="symbolic link")
    os.unlink(file)
    shutil.move(outside, file)
    shutil.move(os.path.join(bundle, "entries"), tmp_path / "moved")
    os.symlink(tmp_path / "moved", os.path.join(bundle, "entries"))
    refused(bundle, match="symbolic link")


def test_a_pipe_in_a_files_place_is_refused_and_waited_for_by_nobody(bundle, refused):
    (file,) = entry_files(bundle)
    os.unlink(file)
    os.mkfifo(file)
    refused(bundle, match="no plain file")


def test_a_label_above_max_label_is_refused(bundle, refused):
    edit(os.path.join(bundle, "manifest.yaml"), "max_label: internal", "max_label: public")
    refused(bundle, match="above max_label")


def test_a_label_that_is_not_the_files_own_is_refused(bundle, refused):
    manifest = os.path.join(bundle, "manifest.yaml")
    edit(manifest, "classification: internal", "classification: public")
    edit(manifest, "highest_label: internal", "highest_label: public")
    refused(bundle, match="manifest says public")


def test_an_id_in_use_in_another_domain_is_not_taken_over(root, owner, bundle):
    Memory.init(root, domain="other")
    with (
        Memory.open(root) as memory,
        memory.session(author="owner") as session,
        pytest.raises(ConflictError, match="in use elsewhere"),
    ):
        session.import_bundle(bundle, domain="other")


def test_what_was_erased_does_not_come_back_with_an_older_bundle(elsewhere, bundle, refused):
    (id,) = elsewhere.import_bundle(bundle).ids
    elsewhere.erase(id, reason="requested")
    refused(bundle, ConflictError, "erased here")


def test_what_was_erased_here_does_not_come_back_under_another_id(elsewhere, bundle, refused):
    own = elsewhere.write(fact("CODING:  Rules v1.2", "Use when: X # not a comment")).id
    elsewhere.erase(own, reason="requested")
    refused(bundle, ConflictError, f"erased as {own}")


def test_what_was_rejected_here_does_not_come_back_but_its_rejection_elsewhere_may(owner, elsewhere, refused, tmp_path):
    id = owner.write(fact("Port", "port", body=LONG)).id
    owner.export("notes", str(tmp_path / "stating"))
    elsewhere.reject(elsewhere.write(fact("Where", "where", body=LONG)).id, reason="the old box")
    refused(tmp_path / "stating", ConflictError, "the old box")
    owner.reject(id, reason="the old box, as we found too")
    owner.export("notes", str(tmp_path / "rejecting"))
    elsewhere.import_bundle(str(tmp_path / "rejecting"))
    assert elsewhere.get(id).entry.status is Status.demoted


def test_what_is_derived_from_something_rejected_here_is_refused(owner, elsewhere, refused, tmp_path):
    first = owner.write(fact("Port", "port", body=LONG)).id
    owner.export("notes", str(tmp_path / "first"))
    elsewhere.import_bundle(str(tmp_path / "first"))
    elsewhere.reject(first, reason="the old box")
    derived = owner.write(fact("Then", "then", derived_from=(first,))).id
    owner.export("notes", str(tmp_path / "second"))
    only(tmp_path / "second", derived)
    refused(tmp_path / "second", ConflictError, "derived from")


def test_a_value_that_stands_beside_its_rejection_where_it_comes_from_comes_in_with_it(owner, elsewhere, tmp_path):
    kept_on = owner.write(fact("The port of the box", "port", body=LONG)).id
    owner.reject(owner.write(fact("Port", "port", body=LONG)).id, reason="twice")
    owner.export("notes", str(tmp_path / "both"))
    assert len(elsewhere.import_bundle(str(tmp_path / "both")).ids) == 2
    assert elsewhere.get(kept_on).entry.status is Status.active


def test_a_link_that_leads_out_of_the_bundle_is_told_and_a_ring_is_refused(owner, elsewhere, refused, tmp_path):
    old = owner.write(fact("Old", "old")).id
    new = owner.write(fact("New", "new", supersedes=(old,))).id
    owner.export("notes", str(tmp_path / "whole"))
    shutil.copytree(tmp_path / "whole", tmp_path / "part")
    only(tmp_path / "part", new)
    done = elsewhere.import_bundle(str(tmp_path / "part"), dry_run=True)
    assert done.notices == (f"{new} leads to {old}, which is neither in the bundle nor here",)
    assert elsewhere.import_bundle(str(tmp_path / "whole"), dry_run=True).notices == ()
    tamper(str(tmp_path / "whole"), f"entries/{new}.md", lambda text: text.replace("\nstatus", _next(old), 1))
    refused(tmp_path / "whole", InvalidError, "ring: mem-")


def _next(id):
    return f"\nsuperseded_by: {id}\nstatus"


def test_a_ring_that_goes_through_what_is_here_is_refused(owner, elsewhere, refused, tmp_path):
    old = owner.write(fact("Old", "old")).id
    new = owner.write(fact("New", "new", supersedes=(old,))).id
    owner.export("notes", str(tmp_path / "old"))
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    only(tmp_path / "old", old)
    only(tmp_path / "new", new)
    elsewhere.import_bundle(str(tmp_path / "old"))
    tamper(str(tmp_path / "new"), f"entries/{new}.md", lambda text: text.replace("\nstatus", _next(old), 1))
    refused(tmp_path / "new", InvalidError, "ring")


@pytest.mark.parametrize("name", ["receipts.yaml", "tombstones.yaml", "promotions.yaml"])
def test_a_file_of_marks_that_was_changed_removed_or_linked_away_is_refused(full, refused, name, tmp_path):
    path, _ = full
    file = os.path.join(path, name)
    edit(file, "2026-01-01", "2026-01-02")
    refused(path, match="digest")
    shutil.move(file, tmp_path / "outside.yaml")
    refused(path, match=f"no {name}")
    os.symlink(tmp_path / "outside.yaml", file)
    refused(path, match="symbolic link")
    os.unlink(file)
    os.mkfifo(file)
    refused(path, match="no plain file")


@pytest.mark.parametrize("name", ["receipts.yaml", "tombstones.yaml", "promotions.yaml"])
def test_a_file_of_marks_that_is_there_and_not_listed_is_refused(full, refused, name):
    path, _ = full
    manifest = Path(path, "manifest.yaml")
    manifest.write_text(
        "".join(line for line in manifest.read_text().splitlines(keepends=True) if f"path: {name}" not in line)
    )
    refused(path, match="does not list it")


def test_a_file_of_marks_that_is_listed_twice_is_refused(full, refused):
    path, _ = full
    manifest = Path(path, "manifest.yaml")
    manifest.write_text(re.sub(r"(  - \{kind: receipts.*\n)", r"\1\1", manifest.read_text()))
    refused(path, match="stands twice")


@pytest.mark.parametrize(
    "path", ["../receipts.yaml", "/etc/passwd", "entries/receipts.yaml", "tombstones.yaml", "./receipts.yaml"]
)
def test_a_file_of_marks_by_another_path_is_refused(full, refused, path):
    bundle, _ = full
    edit(os.path.join(bundle, "manifest.yaml"), "path: receipts.yaml", f"path: {path}")
    refused(bundle, match="path")


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("receipts.yaml", ('"reason": "requested"', '"reason": "Her name was in it"'), "one word"),
        ("receipts.yaml", ('"lifted": null', '"lifted": null, "body": "text"'), "its fields are"),
        ("receipts.yaml", ('"lifted": null', '"lifted":null'), "not spelled"),
        ("receipts.yaml", ('"label": "internal"', '"label": "secret"'), "label"),
        ("receipts.yaml", ('"label": "internal"', '"label": "public"'), "up to public"),
        ("receipts.yaml", ('"label": "internal"', '"label": "restricted"'), "up to restricted"),
        ("receipts.yaml", ('  - {"id"', '- {"id"'), "not a mark"),
        ("receipts.yaml", ("kind: receipts", "kind: tombstones"), "does not begin"),
        ("receipts.yaml", ("marks/0", "marks/1"), "does not begin"),
        ("receipts.yaml", ('"lifted": null', '"lifted": 1e400'), "cannot be written"),
        ("receipts.yaml", ('"lifted": null', '"lifted": ' + "[" * 100_000), "not a mark"),
        ("receipts.yaml", ('"version": 1', '"version": 1.0'), "not an integer"),
        ("tombstones.yaml", ('"cause": "erased"', '"cause": "unloved"'), "no cause"),
        ("tombstones.yaml", ('"lifted": null', '"lifted": {}'), "its fields are"),
        ("tombstones.yaml", ("the old box", "the old\\u0000box"), "NUL"),
        ("promotions.yaml", ('"tier": "verified"', '"tier": "certain"'), "tier"),
        ("promotions.yaml", ('"domain": "notes"', '"domain": "../x"'), "domain"),
        ("promotions.yaml", ('"label": "internal"', '"label": "public"'), "its entry is internal"),
    ],
)
def test_a_mark_that_is_not_in_its_form_is_refused_whoever_signed_for_it(full, refused, name, change, reason):
    path, _ = full
    tamper(path, name, lambda text: text.replace(*change))
    assert name in str(refused(path, InvalidError, reason)) or reason == "its entry is internal"


def test_marks_out_of_order_or_twice_or_for_no_entry_are_refused(full, refused):
    path, ids = full
    tamper(path, "tombstones.yaml", _swapped)
    refused(path, match="not in its place")
    tamper(path, "tombstones.yaml", _swapped)
    tamper(path, "promotions.yaml", lambda text: text.replace(ids["checked"], "mem-zzz").replace("zzz", "001"))
    refused(path, match="its entry is not there")


def _swapped(text):
    *head, first, second = text.split("\n", 5)[:5]
    return "\n".join([*head, second, first, text.split("\n", 5)[5]])


def test_an_entry_that_is_in_the_bundle_and_on_its_receipts_is_refused(full, refused):
    path, ids = full
    tamper(path, "receipts.yaml", lambda text: text.replace(ids["gone"], ids["new"]))
    refused(path, match="on a receipt in it")


def test_a_huge_manifest_and_a_yaml_bomb_are_refused_before_they_are_read(bundle, refused):
    manifest = os.path.join(bundle, "manifest.yaml")
    head = Path(manifest).read_text().partition("entries:")[0]
    bomb = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10) if n else 'x'}]\n" for n in range(30))
    Path(manifest).write_text(f"{head}{bomb}entries: []\n")
    refused(bundle, match="alias")
    Path(manifest).write_text(f"{head}entries: {'[' * 100_000}")
    refused(bundle, match="not YAML")
    Path(manifest).write_text(f"{head}entries:\n" + "  - x\n" * 200_000)
    refused(bundle, match="larger than 1024 KiB")
    with open(manifest, "wb") as file:
        file.truncate(65 * 1024 * 1024)
    refused(bundle, match="larger than 64 MiB")
    edit_format = Path(manifest)
    edit_format.write_text("format: durable-memory/bundle/7\nnew: thing\n" + "  - x\n" * 300_000)
    refused(bundle, match="durable-memory/bundle/7")
