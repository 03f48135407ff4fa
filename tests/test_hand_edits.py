"""What a person made or changed by hand is taken in as a version by the owner, claims nothing, and loses nothing."""

from __future__ import annotations

import itertools
import os
import re
import shutil

import pytest
from crashing import killed_at

from amem_core import Draft, Memory
from amem_core.domain.labels import Label, Status, Tier
from amem_core.errors import AmemError, DeniedError, NotFoundError

MOST_STEPS = 200


def fact(title="Port", summary="staging listens on 8080", **fields):
    return Draft(domain="notes", type="fact", title=title, summary=summary, **fields)


def file_of(root, id):
    return os.path.join(root, "record", "notes", f"{id}.md")


def edit(root, id, *changes):
    """Change a file as an editor does: each change is a line to look for and what to put there."""
    path = file_of(root, id)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for old, new in changes:
        assert re.search(old, text, re.MULTILINE), (old, text)
        text = re.sub(old, new, text, count=1, flags=re.MULTILINE)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def make(root, id, text):
    os.makedirs(os.path.dirname(file_of(root, id)), exist_ok=True)
    with open(file_of(root, id), "w", encoding="utf-8") as file:
        file.write(text)


def whole(session):
    """Check that nothing is left to be taken in and that record, log, index and ledger agree."""
    again = session.materialize(domain="notes")[0]
    assert (again.adopted, again.displaced, again.missing, again.refused, again.broken) == ((), (), (), (), ())
    assert [one.state for one in session.verify_log()] == ["ok"]
    assert session.fsck().findings == ()


TEXT = (r"summary: .*", "summary: staging listens on 9090")
EDITS = {
    "the text": [TEXT],
    "the text, with the version counted up": [TEXT, (r"version: 2", "version: 3")],
    "the text, with a version far ahead": [TEXT, (r"version: 2", "version: 40")],
    "the text, with the version set back": [TEXT, (r"version: 2", "version: 1")],
    "the text, without a version": [TEXT, (r"version: 2\n", "")],
    "the text, and that it is verified": [TEXT, (r"trust_tier: raw", "trust_tier: verified")],
    "the text, and who verified it": [
        TEXT,
        (r"status: active", "status: active\nverified:\n  - {when: now, by: me, oracle: human, evidence: none}"),
    ],
    "the text, and a lower label": [TEXT, (r"classification: confidential", "classification: public")],
    "the text, without a label": [TEXT, (r"classification: confidential\n", "")],
    "the text, and somebody else's name": [TEXT, (r"author: .*", "author: session:somebody")],
    "the text, and a time to come": [TEXT, (r"updated: .*", "updated: 2099-01-01T00:00:00Z")],
}


@pytest.mark.parametrize("what", EDITS)
@pytest.mark.parametrize("take", ["materialize", "reindex"])
def test_an_edit_by_hand_becomes_the_owners_version_and_claims_nothing(  # noqa: PLR0917  (fixtures)
    root, owner, agent, clock, what, take
):
    id = owner.write(fact(label=Label.confidential)).id
    owner.write(fact(summary="staging listens on 8081", label=Label.confidential, id=id))
    clock.advance(days=1)
    edit(root, id, *EDITS[what])
    done = getattr(owner, take)(domain="notes")[0]
    adopted = done.edited_by_hand if take == "reindex" else tuple(one.id for one in done.adopted)
    assert adopted == (id,)
    entry = owner.get(id).entry
    assert entry.summary == "staging listens on 9090"
    assert (entry.author, entry.trust_tier, entry.verified) == ("owner", Tier.raw, ())
    assert entry.classification is Label.confidential
    assert entry.updated == clock.now()
    assert entry.version == (41 if "far ahead" in what else 4 if "counted up" in what else 3)
    assert [hit.version for hit in owner.search("9090").hits] == [entry.version]
    assert owner.search("8081").hits == ()
    assert owner.search("9090", as_of=clock.advance(hours=-1)).hits == ()
    clock.advance(hours=1)
    with pytest.raises(DeniedError):
        agent.get(id)
    whole(owner)
    assert owner.write(fact(summary="staging listens on 7070", id=id)).version == entry.version + 1
    whole(owner)


def test_what_a_hand_edit_claimed_and_did_not_get_is_told(root, owner):
    id = owner.write(fact(label=Label.confidential)).id
    edit(root, id, (r"trust_tier: raw", "trust_tier: verified"), (r"classification: .*", "classification: public"))
    (adopted,) = owner.materialize(domain="notes")[0].adopted
    assert (adopted.id, adopted.version, adopted.stated) == (id, 2, 1)
    assert ["verifies nothing" in adopted.notices[0], "stays confidential" in adopted.notices[1]] == [True, True]


def test_a_hand_edit_may_raise_a_label(root, owner, agent):
    id = owner.write(fact()).id
    edit(root, id, (r"classification: .*", "classification: restricted"))
    owner.reindex(domain="notes")
    assert owner.get(id).entry.classification is Label.restricted
    assert agent.search("staging").hits == ()


def test_the_event_of_a_hand_edit_names_what_it_was_made_from(root, owner, memory):
    id = owner.write(fact()).id
    edit(root, id, TEXT)
    with open(file_of(root, id), "rb") as file:
        edited = file.read()
    owner.materialize(domain="notes")
    event = list(memory.runtime.log.read("notes"))[-1]
    assert (event.kind, event.subject, event.actor) == ("entry.adopted", id, "owner")
    assert memory.runtime.store.read("notes", id, 1) == edited
    assert (event.data["version"], event.data["label"], event.data["status"]) == (2, "internal", "active")
    from amem_core.format.entry import digest

    assert event.data["replaces"] == digest(edited)
    assert event.data["digest"] == owner.get(id).digest


def test_a_file_with_a_title_alone_is_taken_in_byte_for_byte(root, owner, clock):
    make(root, "mem-byhand", "---\ntitle: Herons\n---\nThey stand still.\n")
    (adopted,) = owner.materialize(domain="notes")[0].adopted
    assert (adopted.id, adopted.version, adopted.stated, adopted.notices) == ("mem-byhand", 1, 1, ())
    with open(file_of(root, "mem-byhand"), encoding="utf-8") as file:
        assert file.read() == "---\ntitle: Herons\n---\nThey stand still.\n"
    entry = owner.get("mem-byhand").entry
    assert (entry.version, entry.author, entry.created, entry.classification) == (
        1,
        "owner",
        clock.now(),
        Label.internal,
    )
    whole(owner)


def test_a_file_that_is_copied_in_is_the_owners_and_raw_whoever_it_says_wrote_and_verified_it(root, owner, tmp_path):
    other = str(tmp_path / "other")
    Memory.init(other, domain="notes")
    with Memory.open(other) as elsewhere, elsewhere.session(author="session:there") as session:
        id = session.write(fact()).id
        session.write(fact(summary="staging listens on 9090", id=id))
    with Memory.open(other) as elsewhere, elsewhere.session(author="owner") as session:
        session.verify(id, oracle="data", evidence="seen", by="somebody")
    os.makedirs(os.path.join(root, "record", "notes"), exist_ok=True)
    shutil.copy(file_of(other, id), file_of(root, id))
    (adopted,) = owner.materialize(domain="notes")[0].adopted
    assert (adopted.version, adopted.stated) == (4, 3)
    entry = owner.get(id).entry
    assert (entry.author, entry.trust_tier, entry.verified) == ("owner", Tier.raw, ())
    whole(owner)


def test_an_entry_that_comes_with_its_history_keeps_it(root, owner, tmp_path):
    other = str(tmp_path / "other")
    Memory.init(other, domain="notes")
    with Memory.open(other) as elsewhere, elsewhere.session(author="owner") as session:
        id = session.write(fact()).id
        session.write(fact(summary="staging listens on 9090", id=id))
    shutil.copytree(os.path.join(other, "record"), os.path.join(root, "record"), dirs_exist_ok=True)
    owner.materialize(domain="notes")
    assert owner.get(id).entry.version == 2
    assert owner.get(id, version=1).entry.summary == "staging listens on 8080"
    whole(owner)


def test_a_file_that_was_deleted_is_told_and_leaves_the_index_and_nothing_is_invented(root, owner, memory):
    id = owner.write(fact()).id
    head = memory.runtime.log.head("notes")
    os.unlink(file_of(root, id))
    for _ in range(2):
        done = owner.materialize(domain="notes")[0]
        assert (done.missing, done.adopted, done.entries) == ((id,), (), 0)
        assert owner.search("staging").hits == ()
        assert memory.runtime.log.head("notes") == head
    with pytest.raises(NotFoundError):
        owner.get(id)
    (finding,) = owner.fsck().findings
    assert (finding.rule, finding.state, finding.id) == ("file-missing", "alarm", id)


@pytest.mark.parametrize("history", [True, False], ids=["with its history", "alone"])
def test_a_file_from_an_old_backup_is_told_served_and_taken_for_no_edit(root, owner, memory, tmp_path, history):
    id = owner.write(fact()).id
    owner.write(fact(summary="staging listens on 8081", id=id))
    backup = shutil.copytree(os.path.join(root, "record", "notes"), str(tmp_path / "backup"))
    owner.write(fact(summary="staging listens on 8082", id=id))
    owner.write(fact(summary="staging listens on 8083", id=id))
    head = memory.runtime.log.head("notes")
    if history:
        shutil.rmtree(os.path.join(root, "record", "notes"))
        shutil.copytree(backup, os.path.join(root, "record", "notes"))
    else:
        shutil.copy(os.path.join(backup, f"{id}.md"), file_of(root, id))
    for _ in range(2):
        (displaced,) = owner.materialize(domain="notes")[0].displaced
        assert (displaced.id, displaced.logged, displaced.held) == (id, 4, 2)
        assert memory.runtime.log.head("notes") == head
        assert [hit.summary for hit in owner.search("staging").hits] == [owner.get(id).entry.summary]
        assert owner.get(id).entry.summary == "staging listens on 8081"
    assert "file-displaced" in {finding.rule for finding in owner.fsck().findings}
    # As the remedy says: a number above all others keeps the text, as an edit by the owner.
    edit(root, id, (r"version: 2", "version: 5"))
    assert [one.version for one in owner.materialize(domain="notes")[0].adopted] == [6]
    assert owner.get(id).entry.summary == "staging listens on 8081"
    assert owner.materialize(domain="notes")[0].adopted == ()


def test_a_hand_cannot_state_what_was_rejected(root, owner):
    wrong = owner.write(fact()).id
    owner.reject(wrong, reason="it never did")
    make(root, "mem-byhand", "---\ntitle: Port\nsummary: Staging  listens on 8080\n---\n")
    done = owner.materialize(domain="notes")[0]
    assert done.adopted == ()
    assert [(one.path, "it never did" in one.reason, "amem lift" in one.reason) for one in done.refused] == [
        ("record/notes/mem-byhand.md", True, True)
    ]
    assert owner.search("listens").hits == ()


def test_a_hand_may_change_a_rejected_entry_and_it_stays_rejected(root, owner):
    wrong = owner.write(fact()).id
    owner.reject(wrong, reason="it never did")
    edit(root, wrong, (r"status: demoted", "status: active\ntags: [ports]"))
    (adopted,) = owner.materialize(domain="notes")[0].adopted
    assert "demoted" in adopted.notices[0]
    assert owner.get(wrong).entry.status is Status.demoted
    with pytest.raises(AmemError, match="it never did"):
        owner.write(fact())
    whole(owner)


def test_a_hand_that_takes_a_rejection_out_of_a_file_does_not_lift_it(root, owner):
    wrong = owner.write(fact()).id
    before = file_of(root, wrong) + ".before"
    shutil.copy(file_of(root, wrong), before)
    owner.reject(wrong, reason="it never did")
    shutil.copy(before, file_of(root, wrong))
    edit(root, wrong, (r"version: 1", "version: 2"))
    assert owner.materialize(domain="notes")[0].adopted == ()
    assert owner.search("staging").hits == ()


def test_a_hand_cannot_say_that_something_is_erased(root, owner):
    id = owner.write(fact()).id
    edit(root, id, (r"status: active", "status: erased"))
    done = owner.materialize(domain="notes")[0]
    assert (done.adopted, len(done.refused)) == ((), 1)
    assert "amem erase" in done.refused[0].reason


def test_what_was_erased_and_put_back_by_hand_is_told_and_not_served(root, owner, memory):
    id = owner.write(fact()).id
    backup = file_of(root, id) + ".backup"
    shutil.copy(file_of(root, id), backup)
    owner.erase(id, reason="requested")
    head = memory.runtime.log.head("notes")
    for change in ((), ((r"version: 1", "version: 9"),)):
        shutil.copy(backup, file_of(root, id))
        edit(root, id, *change)
        done = owner.materialize(domain="notes")[0]
        assert (done.adopted, [one.path for one in done.refused]) == ((), [f"record/notes/{id}.md"])
        assert memory.runtime.log.head("notes") == head
        assert owner.search("staging").hits == ()
        assert ("file-erased", "alarm", id) in {(f.rule, f.state, f.id) for f in owner.fsck().findings}
    make(root, "mem-byhand", "---\ntitle: Port\nsummary: staging listens on 8080\nstatus: archived\n---\n")
    assert owner.materialize(domain="notes")[0].adopted == ()


def test_a_broken_edit_is_told_with_its_line_and_the_entry_is_an_alarm(root, owner):
    id = owner.write(fact()).id
    edit(root, id, (r"summary: .*", "summary: a: b"))
    done = owner.materialize(domain="notes")[0]
    assert [(one.path, one.line) for one in done.broken] == [(f"record/notes/{id}.md", 7)]
    (finding,) = owner.fsck().findings
    assert (finding.rule, finding.state, finding.line) == ("file-broken", "alarm", 7)
    edit(root, id, (r"summary: a: b", "summary: staging listens on 9090"))
    assert [one.id for one in owner.materialize(domain="notes")[0].adopted] == [id]
    whole(owner)


def test_the_label_of_a_task_follows_the_hand_that_raised_it(root, owner, agent):
    task = owner.create_task(domain="notes", title="Restore one file", summary="to see that it can be done").task
    edit(root, task.id, (r"classification: .*", "classification: restricted"))
    owner.materialize(domain="notes")
    assert owner.task(task.id).task.label is Label.restricted
    assert agent.claim_next() == []
    whole(owner)


def test_many_edits_are_taken_in_and_each_once(root, owner):
    ids = [written.id for written in owner.write_many([fact(f"Port {number}") for number in range(250)])]
    for id in ids:
        edit(root, id, TEXT)
    assert [one.id for one in owner.materialize(domain="notes")[0].adopted] == sorted(ids)
    whole(owner)


# -- crashes ----------------------------------------------------------------------------------------


def test_taking_edits_in_may_be_killed_at_any_step(tmp_path):
    root = str(tmp_path / "root")
    Memory.init(root, domain="notes")
    with Memory.open(root) as memory, memory.session(author="owner") as session:
        edited = session.write(fact()).id
        kept = session.write(fact("Kept", "as it was")).id
    edit(root, edited, TEXT, (r"trust_tier: raw", "trust_tier: verified"))
    make(root, "mem-byhand", "---\ntitle: Herons\n---\n")

    def act(root):
        with Memory.open(root) as memory, memory.session(author="owner") as session:
            return ",".join(one.id for one in session.materialize(domain="notes")[0].adopted)

    seen = set()
    for after in (False, True):
        for number in itertools.count(1):
            assert number < MOST_STEPS
            copy = str(tmp_path / f"copy-{after}-{number}")
            shutil.copytree(root, copy)
            outcome = killed_at(number, lambda copy=copy: act(copy), after=after)
            with Memory.open(copy) as memory, memory.session(author="owner") as session:
                # Whoever comes next finds each edit whole or not taken in yet, and the next run finds the rest.
                before = session.search("9090 herons").hits
                assert {hit.tier for hit in before} <= {Tier.raw}
                session.write(fact("Next", "the next write succeeds"))
                rest = session.materialize(domain="notes")[0].adopted
                seen.add(len(rest))
                assert session.get(edited).entry.version == 2
                assert session.get(edited).entry.trust_tier is Tier.raw
                assert session.get("mem-byhand").entry.version == 1
                assert session.get(kept).entry.version == 1
                events = [event.subject for event in memory.runtime.log.read("notes") if event.kind == "entry.adopted"]
                assert sorted(events) == sorted([edited, "mem-byhand"])
                whole(session)
            shutil.rmtree(copy)
            if outcome.killed_at is None:
                break
    assert {0, 2} <= seen
