"""How memory travels: a bundle holds all that must not be forgotten, and arrives whole."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from bundles import LONG, edit, fact, kept, marks_alone, tamper, tree, without_marks

from amem_core import Draft, Label, Memory, Tier
from amem_core.domain.labels import Status
from amem_core.errors import ConflictError, DeniedError, InvalidError, NotFoundError, UnavailableError

# -- the same bytes again -------------------------------------------------------------------------------


def test_export_import_export_gives_the_same_bytes_in_every_file_over_two_hops(full, opened, tmp_path):
    first, _ = full
    for hop, before in (("one", first), ("two", str(tmp_path / "bundle-one"))):
        session = opened(hop)
        assert session.import_bundle(before).notices == ()
        after = str(tmp_path / f"bundle-{hop}")
        session.export("notes", after)
        assert tree(after) == tree(before)
    statuses = re.findall(r"\nstatus: (\w+)\n", "".join(data.decode() for data in tree(first).values()))
    assert {"active", "superseded", "archived", "demoted"} == set(statuses)


def test_the_same_record_at_the_same_instant_is_the_same_bundle_and_later_only_its_time_differs(
    eventful_once, full, clock, tmp_path
):
    first, _ = full
    shutil.copytree(eventful_once[0] / "root", tmp_path / "copy")
    with Memory.open(str(tmp_path / "copy"), clock=clock) as memory, memory.session(author="owner") as session:
        session.export("notes", str(tmp_path / "again"))
        clock.advance(days=1)
        session.export("notes", str(tmp_path / "later"))
    assert tree(str(tmp_path / "again")) == tree(first)
    before, after = tree(first), tree(str(tmp_path / "later"))
    assert {name for name in before if before[name] != after[name]} == {"manifest.yaml"}
    old, new = (files.pop("manifest.yaml").decode().splitlines() for files in (before, after))
    assert [(a, b) for a, b in zip(old, new, strict=True) if a != b] == [
        ("created: 2026-01-01T12:00:00Z", "created: 2026-01-02T12:00:00Z")
    ]


def test_what_was_verified_lands_at_raw_and_its_promotion_travels_beside_it_from_hop_to_hop(full, opened, tmp_path):
    path, ids = full
    one, two = opened("one"), opened("two")
    one.import_bundle(path)
    landed = one.get(ids["checked"]).entry
    assert (landed.trust_tier, landed.verified, landed.version) == (Tier.raw, (), 3)
    one.verify(ids["checked"], oracle="data", evidence="counted", by="Cy")
    one.export("notes", str(tmp_path / "bundle-one"))
    two.import_bundle(str(tmp_path / "bundle-one"))
    two.export("notes", str(tmp_path / "bundle-two"))
    assert tree(str(tmp_path / "bundle-two")) == tree(str(tmp_path / "bundle-one"))
    lines = Path(tmp_path, "bundle-two", "promotions.yaml").read_text().splitlines()[3:]
    records = {mark["id"]: mark["records"] for mark in (json.loads(line[4:]) for line in lines)}
    assert [(each["version"], each["tier"]) for each in records[ids["checked"]]] == [(3, "verified"), (4, "verified")]
    evidence = [item["evidence"] for each in records[ids["checked"]] for item in each["verified"]]
    assert evidence == ["run 12 用户: green # all", "asked", "counted"]


def test_what_a_hand_on_a_file_claims_of_its_trust_is_no_promotion(owner, root, tmp_path):
    id = owner.write(fact()).id
    edit(os.path.join(root, "record", "notes", f"{id}.md"), "trust_tier: raw", "trust_tier: verified")
    done = owner.export("notes", str(tmp_path / "edited"))
    assert (done.entries, done.promotions) == (1, 0)


def test_a_bundle_from_before_there_were_marks_is_read(full, elsewhere):
    path, ids = full
    without_marks(path)
    done = elsewhere.import_bundle(path)
    assert (done.receipts, done.tombstones, done.promotions) == (0, 0, 0)
    assert elsewhere.get(ids["wrong"]).entry.status is Status.demoted


def test_what_an_older_amem_left_in_the_file_of_its_trust_lands_at_raw_and_travels_on(owner, opened, tmp_path):
    id = owner.write(fact()).id
    owner.verify(id, oracle="ci", evidence="run 12", by="Ada")
    path = str(tmp_path / "older")
    owner.export("notes", path)
    without_marks(path)
    own = owner.runtime.store.read("notes", id).decode()
    tamper(path, f"entries/{id}.md", lambda _: own)
    one, two = opened("one"), opened("two")
    one.import_bundle(path)
    assert one.get(id).entry.trust_tier is Tier.raw
    one.export("notes", str(tmp_path / "one.bundle"))
    assert "run 12" in Path(tmp_path, "one.bundle", "promotions.yaml").read_text()
    two.import_bundle(str(tmp_path / "one.bundle"))
    two.export("notes", str(tmp_path / "two.bundle"))
    assert tree(str(tmp_path / "two.bundle")) == tree(str(tmp_path / "one.bundle"))


def test_a_bundle_without_marks_is_what_an_older_amem_reads(owner, tmp_path):
    owner.write(fact())
    owner.export("notes", str(tmp_path / "plain"))
    assert sorted(os.listdir(tmp_path / "plain")) == ["entries", "manifest.yaml"]
    assert "marks" not in Path(tmp_path, "plain", "manifest.yaml").read_text()


def test_a_bundle_lands_at_raw_with_every_field_as_it_was(elsewhere, owner, bundle):
    (id,) = elsewhere.import_bundle(bundle).ids
    there, here = elsewhere.get(id).entry, owner.get(id).entry
    assert there.trust_tier is Tier.raw
    assert there == here
    assert len(elsewhere.search("rules").hits) == 1


def test_a_bundle_can_land_in_a_domain_of_another_name(tmp_path, full, clock):
    path, ids = full
    Memory.init(str(tmp_path / "other"), domain="archive")
    with Memory.open(str(tmp_path / "other"), clock=clock) as memory, memory.session(author="owner") as session:
        session.import_bundle(path, domain="archive")
        assert session.get(ids["new"]).entry.domain == "archive"
        with pytest.raises(ConflictError, match="the old box"):
            session.write(Draft(domain="archive", type="fact", title="x", summary="x", body=f"{LONG} wrong"))
        session.export("archive", str(tmp_path / "archive"))
    names = ("receipts.yaml", "tombstones.yaml", "promotions.yaml")
    before, after = tree(path), tree(str(tmp_path / "archive"))
    assert [after[name] for name in names] == [before[name] for name in names]


def test_the_event_time_of_an_import_is_the_time_of_the_import(owner, bundle, elsewhere, clock):
    clock.advance(days=3)
    (id,) = elsewhere.import_bundle(bundle).ids
    events = [event for event in elsewhere.runtime.log.read("notes") if event.subject == id]
    assert [event.time for event in events] == [clock.now()]


# -- what may not come back -------------------------------------------------------------------------------


def test_what_was_rejected_at_the_origin_is_refused_where_it_arrives_until_it_is_lifted_there(full, elsewhere):
    path, ids = full
    elsewhere.import_bundle(path)
    with pytest.raises(ConflictError, match="the old box"):
        elsewhere.write(fact("Again", "again", body=f"{LONG}  WRONG"))
    elsewhere.lift(ids["wrong"], reason="that box is back")
    assert elsewhere.write(fact("Again", "again", body=f"{LONG}  WRONG")).changed


def test_what_was_erased_at_the_origin_is_refused_where_it_arrives_until_it_is_lifted_there(full, elsewhere):
    path, ids = full
    elsewhere.import_bundle(path)
    with pytest.raises(ConflictError, match=f"erased as {ids['gone']}") as refused:
        elsewhere.write(fact("Again", "again", body=f"{LONG} gone"))
    assert f"amem lift {ids['gone']}" in refused.value.hint
    lifted = elsewhere.lift(ids["gone"], reason="asked for")
    assert lifted.version == 0
    assert elsewhere.write(fact("Again", "again", body=f"{LONG} gone")).changed
    with pytest.raises(NotFoundError):
        elsewhere.lift(ids["gone"], reason="twice")
    elsewhere.reindex(domain="notes")
    assert elsewhere.write(fact("Once more", "once more", body=f"{LONG} gone")).changed


def test_an_older_bundle_does_not_bring_back_what_a_later_one_says_was_erased(owner, elsewhere, tmp_path):
    id = owner.write(fact("Gone", "gone", body=LONG)).id
    owner.export("notes", str(tmp_path / "older"))
    owner.erase(id, reason="legal")
    owner.export("notes", str(tmp_path / "later"))
    assert elsewhere.import_bundle(str(tmp_path / "later")).receipts == 1
    before = kept(elsewhere.runtime.root)
    with pytest.raises(ConflictError, match="erased here"):
        elsewhere.import_bundle(str(tmp_path / "older"))
    assert kept(elsewhere.runtime.root) == before


def test_a_receipt_that_arrives_erases_nothing_and_says_what_stays(owner, elsewhere, tmp_path):
    id = owner.write(fact("Gone", "gone", body=LONG)).id
    owner.export("notes", str(tmp_path / "older"))
    elsewhere.import_bundle(str(tmp_path / "older"))
    owner.erase(id, reason="sensitive")
    owner.export("notes", str(tmp_path / "later"))
    for dry_run in (True, False):
        done = elsewhere.import_bundle(str(tmp_path / "later"), dry_run=dry_run)
        assert [f"amem erase {id} --reason sensitive" in notice for notice in done.notices] == [True]
    assert elsewhere.get(id).entry.body == LONG
    with pytest.raises(ConflictError, match="erased"):
        elsewhere.write(fact("Again", "again", body=LONG))
    elsewhere.erase(id, reason="sensitive")
    with pytest.raises(DeniedError):
        elsewhere.get(id)


def test_a_lifted_tombstone_travels_as_lifted_and_lifts_nothing_here(owner, elsewhere, tmp_path, clock):
    id = owner.write(fact("Port", "port", body=LONG)).id
    owner.export("notes", str(tmp_path / "older"))
    elsewhere.import_bundle(str(tmp_path / "older"))
    elsewhere.reject(id, reason="wrong here")
    owner.erase(id, reason="legal")
    owner.lift(id, reason="it may be said")
    owner.export("notes", str(tmp_path / "later"))
    done = elsewhere.import_bundle(str(tmp_path / "later"))
    assert any("stays rejected here" in notice for notice in done.notices)
    with pytest.raises(ConflictError, match="wrong here"):
        elsewhere.write(fact("Again", "again", body=LONG))


def test_what_was_lifted_here_stays_lifted_until_it_is_rejected_anew_after_that(owner, opened, tmp_path, clock):
    id = owner.write(fact("Port", "port", body=LONG, label=Label.internal)).id
    owner.write(fact("Public", "public", label=Label.public))
    owner.reject(id, reason="the old box")
    owner.export("notes", str(tmp_path / "one"))
    here = opened("here")
    here.import_bundle(marks_alone(tmp_path / "one"))
    clock.advance(hours=1)
    here.lift(id, reason="it holds here")
    owner.write(fact("More", "more"))
    owner.export("notes", str(tmp_path / "two"))
    done = here.import_bundle(marks_alone(tmp_path / "two"))
    assert any("lifted here and stays so" in notice for notice in done.notices)
    assert here.write(fact("Again", "again", body=LONG)).changed
    clock.advance(hours=1)
    owner.lift(id, reason="so it did")
    owner.reject(id, reason="no, it is wrong")
    owner.export("notes", str(tmp_path / "three"))
    here.import_bundle(marks_alone(tmp_path / "three"))
    with pytest.raises(ConflictError, match="no, it is wrong"):
        here.write(fact("Once more", "once more", body=LONG))


def test_the_highest_label_counts_marks_and_a_lower_bundle_holds_none_above_it(owner, elsewhere, tmp_path):
    owner.write(fact("Public", "public", label=Label.public))
    id = owner.write(fact("Inside", "inside", body=LONG, label=Label.internal)).id
    owner.erase(id, reason="legal")
    high = owner.export("notes", str(tmp_path / "high"))
    assert (high.entries, high.receipts, high.highest_label) == (1, 1, Label.internal)
    low = owner.export("notes", str(tmp_path / "low"), max_label=Label.public)
    assert (low.receipts, low.tombstones, low.withheld_marks) == (0, 0, 3)
    assert low.highest_label is Label.public
    assert id.encode() not in b"".join(tree(str(tmp_path / "low")).values())
    edit(str(tmp_path / "high" / "manifest.yaml"), "highest_label: internal", "highest_label: public")
    with pytest.raises(InvalidError, match="highest of what it holds is internal"):
        elsewhere.import_bundle(str(tmp_path / "high"))


def test_a_promotion_that_an_unfinished_import_left_is_not_taken_for_that_of_another(full, elsewhere, tmp_path):
    path, ids = full
    elsewhere.runtime.store.save_mark(
        "notes", "promotions", ids["new"], b'{"id": "x", "records": [{"tier": "verified"}]}\n'
    )
    elsewhere.import_bundle(path)
    elsewhere.export("notes", str(tmp_path / "again"))
    assert tree(str(tmp_path / "again")) == tree(path)


def test_a_dry_run_checks_everything_and_writes_nothing(full, elsewhere):
    path, _ = full
    before = kept(elsewhere.runtime.root)
    done = elsewhere.import_bundle(path, dry_run=True)
    assert kept(elsewhere.runtime.root) == before
    assert done.dry_run
    again = elsewhere.import_bundle(path)
    assert (again.ids, again.tombstones, again.promotions) == (done.ids, done.tombstones, done.promotions)


# -- an export that fails -----------------------------------------------------------------------------------


def test_an_export_that_fails_leaves_nothing_that_looks_like_a_bundle(owner, bundle, tmp_path, monkeypatch):
    to = tmp_path / "again"
    real = os.fsync

    def full_disk(fd):
        if "again" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(28, "No space left on device")
        real(fd)

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(UnavailableError, match="No space left"):
        owner.export("notes", str(to))
    assert os.listdir(to) == []
    monkeypatch.undo()
    assert owner.export("notes", str(to)).entries == 1
    with pytest.raises(ConflictError, match="not empty"):
        owner.export("notes", str(to))


def test_what_cannot_be_read_is_left_out_of_an_export_and_named(owner, root, tmp_path):
    owner.write(fact())
    Path(root, "record", "notes", "mem-broken.md").write_text("---\ntitle: a: b\n---\nbody")
    done = owner.export("notes", str(tmp_path / "rest"))
    assert done.entries == 1
    assert "mem-broken" in done.notices[0]


def test_progress_is_told_on_the_way(owner, elsewhere, tmp_path):
    owner.write_many([fact(f"Fact {n}", f"number {n}") for n in range(250)])
    told = []
    owner.export("notes", str(tmp_path / "many"), progress=lambda what, done: told.append((what, done)))
    elsewhere.import_bundle(str(tmp_path / "many"), progress=lambda what, done: told.append((what, done)))
    assert told == [("exported", 100), ("exported", 200), ("checked", 250), ("imported", 250)]
