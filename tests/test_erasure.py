"""What is erased leaves every file below the root, and nothing brings it back."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys

import pytest
from crashing import killed_at
from pages import REPOSITORY

from amem_core import Draft, Memory
from amem_core.domain.labels import Label, Status
from amem_core.errors import AmemError, ConflictError, DeniedError, InvalidError, NotFoundError

TITLE = "Wherewithal of the quokka"
SUMMARY = "The quokka's wherewithal is kept in a drawer."
BODY = "Zyzzyva marks the drawer where the quokka keeps it.\n\nA second paragraph says it again, at some length."
AUTHOR = "session:perambulator"
MOST_STEPS = 400


def draft(**fields):
    return Draft(**{"domain": "notes", "type": "fact", "title": TITLE, "summary": SUMMARY, "body": BODY, **fields})


def forms(text):
    """Return a text as it may lie in a file."""
    return {text.encode(), json.dumps(text)[1:-1].encode(), text.encode("utf-16-le"), text.encode("utf-16-be")}


def traces(root, *texts):
    """Return the files that hold one of the texts, or one of their paragraphs, in any form."""
    wanted = {form for text in texts for part in (text, *text.split("\n\n")) for form in forms(part)}
    found = []
    for directory, _, files in os.walk(root):
        for name in files:
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                data = file.read()
            if any(form in data for form in wanted):
                found.append(os.path.relpath(path, root))
    return sorted(found)


@pytest.fixture
def writer(memory):
    with memory.session(author=AUTHOR) as session:
        yield session


def surrounded(writer, owner, root):
    """Write the entry in two versions and let everything be made of it that is made of entries."""
    id = writer.write(draft(body="An early version: " + BODY)).id
    writer.write(draft(id=id))
    owner.write(draft(title="Conclusion", summary="It follows.", body="So it follows.", derived_from=(id,)))
    owner.write(draft(title="Mention", summary="It is named.", body=f"See {id}, which says more."))
    owner.write(draft(title="Neighbour", summary="It stays.", body="Nothing of the other is in here."))
    owner.search("zyzzyva drawer")
    owner.recall("where does the quokka keep it?")
    owner.export("notes", os.path.join(root, "bundles", "one"))
    tape = os.path.join(root, "record", "notes", ".tapes", "perambulator")
    os.makedirs(tape)
    with open(os.path.join(tape, "0001.jsonl"), "w", encoding="utf-8") as file:
        file.write(json.dumps({"tool": "get", "arguments": {"id": id}, "result": BODY}) + "\n")
        file.write(json.dumps({"tool": "search", "arguments": {"query": "weather"}, "result": "nothing"}) + "\n")
        file.write(json.dumps({"tool": "recall", "result": BODY.splitlines()[0]}, ensure_ascii=False) + "\n")
    projection = os.path.join(root, "state", "projection")
    os.makedirs(projection)
    with open(os.path.join(projection, "notes.md"), "w", encoding="utf-8") as file:
        file.write(f"# {TITLE}\n\n{BODY}\n")
    return id


@pytest.mark.parametrize("reason", ["requested", "mistaken", "sensitive", "legal"])
def test_no_byte_of_it_is_left_below_the_root(owner, writer, root, reason):
    id = surrounded(writer, owner, root)
    assert len(traces(root, BODY)) > 4
    done = owner.erase(id, reason=reason)
    assert traces(root, BODY, SUMMARY, "An early version") == []
    if reason in {"requested", "sensitive"}:
        assert traces(root, TITLE) == []
    if reason == "requested":
        # Who acted stays in the log and the decisions, which the receipt says.
        assert traces(root, AUTHOR) == ["state/decisions.jsonl", "state/log/notes.jsonl"]
        assert any("log" in place for place in done.out_of_reach)
    assert done.index_clean
    assert done.left == ()
    assert done.versions == (1, 2)
    assert set(done.swept) == {
        "bundles/one",
        "record/notes/.tapes/perambulator/0001.jsonl",
        "state/projection/notes.md",
    }


def test_what_is_left_is_a_bundle_and_a_tape_still(owner, writer, root, tmp_path):
    id = surrounded(writer, owner, root)
    owner.erase(id, reason="requested")
    other = str(tmp_path / "other")
    Memory.init(other, domain="notes")
    with Memory.open(other) as memory, memory.session(author="owner") as session:
        taken = session.import_bundle(os.path.join(root, "bundles", "one"))
    assert len(taken.ids) == 3
    with open(os.path.join(root, "record/notes/.tapes/perambulator/0001.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    assert lines[0] == {"erased": id}
    assert lines[1]["result"] == "nothing"


def test_the_stub_keeps_what_the_reason_allows(owner, writer):
    for reason, title, author in (
        ("requested", "(erased)", "owner"),
        ("sensitive", "(erased)", AUTHOR),
        ("mistaken", TITLE, AUTHOR),
        ("legal", TITLE, AUTHOR),
    ):
        id = writer.write(draft(body=f"{BODY} for {reason}", source=("https://example.org/",))).id
        owner.erase(id, reason=reason)
        found = owner.runtime.index.find(id)
        assert (found.status, found.title, found.author, found.summary) == (Status.erased, title, author, "")
        assert bool(found.source) == (reason != "requested")


def test_what_cites_it_is_due_for_review_in_every_domain(owner, writer, memory, root, clock):
    Memory.init(root, domain="elsewhere")
    id = writer.write(draft()).id
    near = owner.write(draft(title="Near", summary="near", body="derived", derived_from=(id,))).id
    with memory.session(author="owner") as session:
        far = session.write(draft(domain="elsewhere", title="Far", summary="far", body="cites", source=(id,))).id
        longer = session.write(draft(title="Other", summary="other", body=f"see {id}x instead")).id
        done = session.erase(id, reason="requested")
        assert set(done.flagged) == {near, far}
        for flagged in done.flagged:
            assert session.get(flagged).entry.review_by == clock.now().date()
        assert session.get(longer).entry.review_by is None


def test_the_dry_run_says_what_would_go_and_does_nothing(owner, writer, root):
    id = surrounded(writer, owner, root)
    before = traces(root, BODY)
    foreseen = owner.erase(id, reason="requested", dry_run=True)
    assert traces(root, BODY) == before
    assert owner.get(id).entry.body == BODY
    done = owner.erase(id, reason="requested")
    assert (foreseen.versions, foreseen.swept, set(foreseen.flagged)) == (done.versions, done.swept, set(done.flagged))


# -- it does not come back ----------------------------------------------------------------------------


def test_no_way_in_brings_it_back(owner, writer, root, tmp_path):
    id = writer.write(draft()).id
    owner.export("notes", str(tmp_path / "before"))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "notes.md").write_text(f"# {TITLE}\n\n{BODY}\n")
    owner.erase(id, reason="requested")
    with pytest.raises(ConflictError, match="erased"):
        writer.write(draft(id=id))
    with pytest.raises(ConflictError, match="does not come back"):
        writer.write(draft())
    with pytest.raises(ConflictError, match="does not come back"):
        writer.write(draft(title="Another", summary="other", body=BODY.upper()))
    with pytest.raises(ConflictError, match="erased"):
        owner.import_bundle(str(tmp_path / "before"))
    done = owner.ingest([str(folder)], domain="notes")
    assert done.written == 0
    assert "erased" in done.refused[0].reason
    owner.reindex()
    assert owner.search("zyzzyva").hits == ()
    assert traces(root, BODY) == []


def test_a_bundle_that_was_renamed_inside_does_not_bring_it_back(owner, writer, tmp_path):
    id = writer.write(draft()).id
    other = str(tmp_path / "other")
    Memory.init(other, domain="notes")
    with Memory.open(other) as memory, memory.session(author="owner") as session:
        session.write(draft(title="Another title", summary="and summary"))
        session.export("notes", str(tmp_path / "bundle"))
    owner.erase(id, reason="sensitive")
    with pytest.raises(ConflictError, match="erased"):
        owner.import_bundle(str(tmp_path / "bundle"))


def test_a_file_that_is_put_back_by_hand_is_named_and_not_served(owner, writer, root):
    id = writer.write(draft()).id
    path = os.path.join(root, "record", "notes", f"{id}.md")
    with open(path, "rb") as file:
        kept = file.read()
    owner.erase(id, reason="requested")
    with open(path, "wb") as file:
        file.write(kept)
    for _ in range(2):
        with pytest.raises(DeniedError, match="put back"):
            owner.get(id)
        assert owner.search("zyzzyva").hits == ()
        (done,) = owner.reindex(domain="notes")
        assert [broken.path for broken in done.broken] == [f"record/notes/{id}.md"]
        assert done.edited_by_hand == ()


def test_the_owner_lifts_what_an_erasure_holds_back_and_the_text_stays_gone(owner, writer, root):
    id = writer.write(draft()).id
    owner.erase(id, reason="mistaken")
    lifted = owner.lift(id, reason="it was right after all")
    assert lifted.status is Status.erased
    assert traces(root, BODY) == []
    assert writer.write(draft()).changed
    assert owner.receipt(id).lifted["reason"] == "it was right after all"
    assert owner.receipt(id).problem == ""


# -- who may, and what there is to erase --------------------------------------------------------------


def test_only_the_owner_erases_and_only_what_is_there_and_once(owner, writer):
    id = writer.write(draft()).id
    with pytest.raises(DeniedError):
        writer.erase(id, reason="requested")
    with pytest.raises(NotFoundError):
        owner.erase("mem-unknown", reason="requested")
    with pytest.raises(InvalidError):
        owner.erase(id, reason="because")
    owner.erase(id, reason="requested")
    with pytest.raises(NotFoundError, match="was erased"):
        owner.erase(id, reason="requested")
    with pytest.raises(AmemError):
        owner.get(id)
    with pytest.raises(AmemError):
        owner.get(id, version=1)


def test_a_file_that_is_no_entry_any_more_is_erased_by_its_digest(owner, writer, root):
    id = writer.write(draft()).id
    path = os.path.join(root, "record", "notes", f"{id}.md")
    with open(path, "a", encoding="utf-8") as file:
        file.write("and more")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("status: active", "status: [broken"))
    done = owner.erase(id, reason="requested")
    assert done.index_clean
    assert traces(root, BODY, SUMMARY, TITLE) == []
    assert owner.receipt(id).versions[-1]["digest"]


def test_a_task_whose_text_is_erased_goes_on_as_a_promise(owner, root):
    task = owner.create_task(domain="notes", title=TITLE, summary=SUMMARY, body=BODY).task
    fence = owner.claim(task.id).task.fence
    owner.erase(task.id, reason="requested")
    assert traces(root, BODY, SUMMARY, TITLE) == []
    assert owner.complete(task.id, fence=fence).id == task.id
    assert [node.task.id for node in owner.tasks()] == [task.id]


def test_a_link_of_a_chain_is_erased_and_the_chain_holds(owner):
    first = owner.write(draft(title="One", summary="one", body="The first text of the chain, and its words.")).id
    second = owner.write(draft(title="Two", summary="two", body="The second of it.", supersedes=(first,))).id
    third = owner.write(draft(title="Three", summary="three", body="The third of it.", supersedes=(second,))).id
    owner.erase(second, reason="mistaken")
    assert owner.get(first).head == third
    assert owner.search("third").hits[0].id == third


def test_secret_text_is_erased_under_its_own_label(owner):
    id = owner.write(draft(label=Label.restricted)).id
    owner.erase(id, reason="sensitive")
    with owner.runtime.log.writer("notes"):
        pass
    assert owner.receipt(id).domain == "notes"
    tombstone = next(iter(owner.runtime.store.marks("notes", "tombstones")))[1]
    assert json.loads(tombstone)["items"][0]["label"] == "restricted"


# -- what stands in the way ---------------------------------------------------------------------------


def test_an_index_that_another_connection_holds_is_said_and_finished_later(owner, writer, root):
    id = writer.write(draft()).id
    holding = sqlite3.connect(os.path.join(root, "state", "index.sqlite"), isolation_level=None)
    holding.execute("BEGIN")
    holding.execute("SELECT count(*) FROM doc").fetchall()
    done = owner.erase(id, reason="requested")
    assert not done.index_clean
    assert not owner.receipt(id).index_clean
    holding.close()
    again = owner.erase(id, reason="requested")
    assert again.index_clean
    assert traces(root, BODY, SUMMARY) == []
    assert owner.receipt(id).index_clean
    with pytest.raises(NotFoundError, match="was erased"):
        owner.erase(id, reason="requested")


def test_a_file_that_amem_did_not_make_is_named_and_left(owner, writer, root):
    id = writer.write(draft()).id
    quoting = owner.write(draft(title="Quote", summary="it quotes", body=f"Someone said: {BODY.splitlines()[0]}")).id
    with open(os.path.join(root, "mine.txt"), "w", encoding="utf-8") as file:
        file.write(BODY)
    done = owner.erase(id, reason="requested")
    assert [place.partition(":")[0] for place in done.left] == ["mine.txt", f"record/notes/{quoting}.md"]
    assert owner.receipt(id).left == done.left


def test_a_common_word_takes_nothing_else_along(owner, root):
    tape = os.path.join(root, "record", "notes", ".tapes", "one")
    os.makedirs(tape)
    with open(os.path.join(tape, "0001.jsonl"), "w", encoding="utf-8") as file:
        file.write(json.dumps({"tool": "search", "result": "yes, and more"}) + "\n")
    id = owner.write(draft(title="Question", summary="Is it so?", body="yes")).id
    assert owner.erase(id, reason="requested").swept == ()


@pytest.mark.parametrize("after", [False, True])
def test_an_erasure_that_is_killed_at_any_step_is_finished_by_the_next(tmp_path, after):
    root = str(tmp_path / "root")
    Memory.init(root, domain="notes")
    with Memory.open(root) as memory, memory.session(author="owner") as owner, memory.session(author=AUTHOR) as writer:
        id = surrounded(writer, owner, root)

    def erased(here):
        with Memory.open(here) as memory, memory.session(author="owner") as session:
            return session.erase(id, reason="requested").id

    for number in itertools.count(1):
        assert number < MOST_STEPS
        copy = str(tmp_path / f"copy-{number}")
        shutil.copytree(root, copy)
        outcome = killed_at(number, lambda copy=copy: erased(copy), after=after)
        with Memory.open(copy) as memory, memory.session(author="owner") as session:
            if outcome.acknowledged is None:
                # One that had come to its end and could not say so any more is done already.
                with contextlib.suppress(NotFoundError):
                    session.erase(id, reason="requested")
            receipt = session.receipt(id)
            assert (receipt.finished, receipt.problem) == (True, "")
            assert traces(copy, BODY, SUMMARY, TITLE) == []
            with pytest.raises(ConflictError):
                session.write(draft())
            assert [check for check in memory.doctor() if check.state == "alarm"] == []
        shutil.rmtree(copy)
        if outcome.killed_at is None:
            break


# -- receipts -----------------------------------------------------------------------------------------


def test_a_receipt_is_checked_by_ten_lines_that_know_nothing_of_amem(owner, writer, root, tmp_path):
    id = writer.write(draft()).id
    owner.erase(id, reason="requested")
    page = (REPOSITORY / "docs" / "format" / "root.md").read_text(encoding="utf-8")
    program = tmp_path / "check.py"
    program.write_text(re.search(r"```python[^\n]*\n(.*?)```", page, re.DOTALL)[1], encoding="utf-8")
    run = [sys.executable, str(program), root, "notes", id]
    assert subprocess.run(run, check=False).returncode == 0
    path = os.path.join(root, "record", "notes", ".erasures", f"{id}.yaml")
    with open(path, encoding="utf-8") as file:
        receipt = json.load(file)
    receipt["reason"] = "legal"
    with open(path, "w", encoding="utf-8") as file:
        json.dump(receipt, file)
    assert subprocess.run(run, check=False, capture_output=True).returncode != 0
    assert "another receipt" in owner.receipt(id).problem


def test_receipts_are_listed_and_one_that_is_unknown_is_not_found(owner, writer):
    ids = [writer.write(draft(body=f"{BODY} {number}")).id for number in range(3)]
    for id in ids:
        owner.erase(id, reason="legal")
    assert [receipt.id for receipt in owner.receipts()] == sorted(ids)
    assert [receipt.id for receipt in owner.receipts(domain="notes")] == sorted(ids)
    assert all(receipt.problem == "" and receipt.finished for receipt in owner.receipts())
    with pytest.raises(NotFoundError):
        owner.receipt("mem-unknown")
