"""Erasure in awkward company: what stands beside a text, what is named like it, and what comes in between."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import time

import pytest
from crashing import killed_at
from test_erasure import AUTHOR, BODY, SUMMARY, TITLE, draft, traces

from amem_core import Memory
from amem_core.errors import AmemError, ConflictError, DeniedError, NotFoundError
from amem_core.ports.store import NewVersion
from amem_core.services import erase, receipts
from amem_core.services.bundle_sweeping import Closing, bundle_at


@pytest.fixture
def writer(memory):
    with memory.session(author=AUTHOR) as session:
        yield session


def put(root, name, text):
    path = os.path.join(root, *name.split("/"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)
    return path


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


# -- what comes back by another way -------------------------------------------------------------------


def test_an_erased_id_takes_no_new_version_whatever_it_says(owner, writer):
    id = writer.write(draft()).id
    owner.erase(id, reason="requested")
    for session in (owner, writer):
        with pytest.raises(ConflictError, match="erased"):
            session.write(draft(id=id, title="New", summary="quite new", body="Nothing of the old text."))


def test_a_number_of_an_erased_version_answers_that_it_was_erased(owner, writer):
    id = writer.write(draft()).id
    writer.write(draft(id=id, body=BODY + " More."))
    owner.erase(id, reason="requested")
    for version in (None, 1, 2, 3, 99):
        with pytest.raises(DeniedError, match="was erased") as refused:
            owner.get(id, version=version)
        assert "receipt" in refused.value.hint


def test_no_time_in_the_past_serves_what_was_erased(owner, writer, clock):
    id = writer.write(draft()).id
    clock.advance(days=1)
    then = clock.now()
    clock.advance(days=1)
    owner.erase(id, reason="mistaken")
    assert owner.search("zyzzyva", as_of=then).hits == ()
    assert [hit.summary for hit in owner.search("quokka", as_of=then).hits] == []
    with pytest.raises(AmemError):
        owner.get(id, as_of=then)
    assert BODY not in str(owner.recall("where is the drawer of the quokka?", as_of=then))


@pytest.mark.parametrize("again", ["reindex", "reopened", "index-deleted"])
def test_a_file_that_is_put_back_into_the_history_is_not_taken_in(root, clock, again):
    with Memory.open(root, clock=clock) as memory, memory.session(author="owner") as owner:
        id = owner.write(draft()).id
        clock.advance(days=1)
        then = clock.now()
        owner.write(draft(id=id, body=BODY + " More."))
        kept = os.path.join(root, "record", "notes", ".history", id, "1.md")
        with open(kept, "rb") as file:
            data = file.read()
        clock.advance(days=1)
        owner.erase(id, reason="requested")
    put(root, f"record/notes/.history/{id}/1.md", data)
    if again == "index-deleted":
        for name in os.listdir(os.path.join(root, "state")):
            if name.startswith("index.sqlite"):
                os.unlink(os.path.join(root, "state", name))
    with Memory.open(root, clock=clock) as memory, memory.session(author="owner") as owner:
        if again == "reindex":
            (done,) = owner.reindex(domain="notes")
            assert any(id in broken.path and "erased" in broken.reason for broken in done.broken)
        with pytest.raises(AmemError, match="erased"):
            owner.get(id, version=1)
        assert owner.search("zyzzyva").hits == ()
        assert owner.search("zyzzyva", as_of=then).hits == ()
        with pytest.raises(AmemError):
            owner.get(id, as_of=then)


def test_erasing_again_takes_out_what_was_put_back(owner, writer, root):
    id = writer.write(draft()).id
    writer.write(draft(id=id, body=BODY + " More."))
    history = os.path.join(root, "record", "notes", ".history", id, "1.md")
    current = os.path.join(root, "record", "notes", f"{id}.md")
    kept = {}
    for path in (history, current):
        with open(path, "rb") as file:
            kept[path] = file.read()
    owner.erase(id, reason="requested")
    for path, data in kept.items():
        put("/", path[1:], data)
    assert traces(root, BODY, SUMMARY) != []
    owner.erase(id, reason="requested")
    assert traces(root, BODY, SUMMARY, TITLE) == []
    assert owner.receipt(id).problem == ""


def test_a_copy_under_another_id_is_not_taken_in(owner, writer, root):
    id = writer.write(draft()).id
    with open(os.path.join(root, "record", "notes", f"{id}.md"), encoding="utf-8") as file:
        text = file.read()
    owner.erase(id, reason="requested")
    put(root, "record/notes/mem-copy.md", text.replace(id, "mem-copy"))
    (done,) = owner.reindex(domain="notes")
    assert [broken.path for broken in done.broken] == ["record/notes/mem-copy.md"]
    assert owner.search("zyzzyva").hits == ()


def test_what_is_staged_by_hand_again_is_not_published(root, clock):
    with Memory.open(root, clock=clock) as memory, memory.session(author="owner") as owner:
        first = owner.write(draft())
        id = first.id
        with open(os.path.join(root, "record", "notes", f"{id}.md"), "rb") as file:
            data = file.read()
        owner.erase(id, reason="requested")
        owner.runtime.store.stage("notes", [NewVersion(id, 1, data, first.digest, None)])
    for name in os.listdir(os.path.join(root, "state")):
        if name.startswith("index.sqlite"):
            os.unlink(os.path.join(root, "state", name))
    with Memory.open(root, clock=clock) as memory, memory.session(author="owner") as owner:
        assert owner.search("zyzzyva").hits == ()
        assert owner.runtime.store.staged("notes") == []
    assert traces(root, BODY) == []


# -- what comes in between ----------------------------------------------------------------------------


class StoppedError(Exception):
    """The process ends here."""


def stop_at(monkeypatch, target, name, *, after=False):
    real = getattr(target, name)

    def stopping(*args, **kwargs):
        if after:
            real(*args, **kwargs)
        raise StoppedError

    monkeypatch.setattr(target, name, stopping)


@pytest.mark.parametrize("step", ["log", "sweep", "record", "index"])
def test_nothing_is_written_over_an_erasure_that_has_begun(owner, writer, root, monkeypatch, step):
    id = writer.write(draft()).id
    runtime = owner.runtime
    with monkeypatch.context() as patch:
        if step == "sweep":
            stop_at(patch, erase, "sweep")
        elif step == "log":
            stop_at(patch, receipts, "save", after=True)
        elif step == "record":
            stop_at(patch, type(runtime.store), "erase")
        else:
            stop_at(patch, type(runtime.index), "forget")
        with pytest.raises(StoppedError):
            owner.erase(id, reason="requested")
    late = "A late text, that arrives while the erasure is not finished yet."
    written = None
    # Once the record holds the stub, the write is refused.
    with contextlib.suppress(ConflictError):
        written = writer.write(draft(id=id, body=late))
    owner.erase(id, reason="requested")
    assert traces(root, BODY, SUMMARY, TITLE, late) == []
    receipt = owner.receipt(id)
    assert (receipt.finished, receipt.problem) == (True, "")
    if written is not None:
        assert written.digest in [item["digest"] for item in receipt.versions]
        with pytest.raises(ConflictError):
            writer.write(draft(body=late))


def test_what_is_edited_by_hand_while_an_erasure_stands_still_is_named_too(owner, writer, root, monkeypatch):
    id = writer.write(draft()).id
    with monkeypatch.context() as patch:
        stop_at(patch, type(owner.runtime.store), "erase")
        with pytest.raises(StoppedError):
            owner.erase(id, reason="requested")
    path = os.path.join(root, "record", "notes", f"{id}.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    late = "And a late line, put there by hand in the middle of it all."
    put("/", path[1:], f"{text.rstrip()}\n{late}")
    owner.erase(id, reason="requested")
    assert traces(root, BODY, late) == []
    with pytest.raises(ConflictError):
        writer.write(draft(body=BODY + "\n" + late))


def test_another_reason_than_the_one_it_was_begun_with_is_not_taken_in_silence(owner, writer, root, monkeypatch):
    id = writer.write(draft()).id
    with monkeypatch.context() as patch:
        stop_at(patch, type(owner.runtime.store), "erase")
        with pytest.raises(StoppedError):
            owner.erase(id, reason="mistaken")
    with pytest.raises(ConflictError, match="mistaken"):
        owner.erase(id, reason="requested")
    owner.erase(id, reason="mistaken")
    assert owner.receipt(id).finished


def test_a_second_run_takes_nothing_of_other_erased_entries_along(owner, writer, root, monkeypatch):
    other = writer.write(draft(title="Other one", summary="Another summary.", body="Quite another body.")).id
    owner.erase(other, reason="requested")
    page = put(root, "state/projection/erased.md", "- (erased)\n")
    id = writer.write(draft()).id
    with monkeypatch.context() as patch:
        stop_at(patch, type(owner.runtime.index), "forget")
        with pytest.raises(StoppedError):
            owner.erase(id, reason="requested")
    done = owner.erase(id, reason="requested")
    assert done.left == ()
    assert os.path.exists(page)


def test_an_index_that_was_not_reached_serves_nothing_of_it_meanwhile(owner, writer, root, clock, monkeypatch):
    id = writer.write(draft()).id
    clock.advance(days=1)
    then = clock.now()
    clock.advance(days=1)
    with monkeypatch.context() as patch:
        stop_at(patch, type(owner.runtime.index), "forget")
        with pytest.raises(StoppedError):
            owner.erase(id, reason="requested")
    assert owner.search("zyzzyva").hits == ()
    assert owner.search("zyzzyva", as_of=then).hits == ()
    assert BODY not in str(owner.recall("zyzzyva drawer", as_of=then))


# -- what stands beside it ----------------------------------------------------------------------------


def test_a_file_whose_name_is_no_text_does_not_stop_it(owner, writer, root):
    id = writer.write(draft()).id
    with open(os.path.join(root, b"caf\xe9.txt".decode("utf-8", "surrogateescape")), "w", encoding="utf-8") as file:
        file.write(BODY)
    done = owner.erase(id, reason="requested")
    assert len(done.left) == 1
    assert "caf" in done.left[0]
    done.left[0].encode()
    assert owner.receipt(id).finished


def test_what_an_editor_left_beside_the_entry_is_named(owner, writer, root):
    id = writer.write(draft()).id
    names = [f"record/notes/.{id}.md.swp", f"record/notes/{id}.md~", "record/notes/drafts/mine.txt", "record/todo.txt"]
    for name in names:
        put(root, name, BODY)
    done = owner.erase(id, reason="requested")
    assert sorted(place.partition(":")[0] for place in done.left) == sorted(names)


def test_an_older_version_of_another_entry_that_quotes_it_is_named(owner, writer, root):
    id = writer.write(draft()).id
    quoting = owner.write(draft(title="Quote", summary="it quotes", body=f"Someone said: {BODY.splitlines()[0]}")).id
    owner.write(draft(id=quoting, title="Quote", summary="it quoted", body="Not any more."))
    done = owner.erase(id, reason="requested")
    assert [place.partition(":")[0] for place in done.left] == [f"record/notes/.history/{quoting}/1.md"]


def test_a_damaged_index_that_was_kept_is_named_or_gone(owner, writer, root):
    id = writer.write(draft()).id
    with open(os.path.join(root, "state", "index.sqlite"), "rb") as file:
        data = file.read()
    with open(os.path.join(root, "state", "index.sqlite-wal"), "rb") as file:
        data += file.read()
    put(root, "state/index.sqlite.bak", data)
    put(root, "state/cache/policy.json", json.dumps({"text": BODY}))
    owner.erase(id, reason="requested")
    assert traces(root, BODY) == []


def test_a_line_that_is_drawn_in_many_texts_takes_nothing_along(owner, writer, root):
    rule = "| --- | --- | --- | --- | --- | --- | --- | --- |"
    other = {"tool": "search", "result": f"| a | b |\n{rule}\n| 1 | 2 |\n{'-' * 60}\n{'=' * 60}"}
    tape = put(root, "record/notes/.tapes/one/0001.jsonl", json.dumps(other) + "\n")
    page = put(root, "state/projection/table.md", f"| a | b |\n{rule}\n")
    id = writer.write(draft(body=f"{BODY}\n\n{rule}\n{'-' * 60}\n{'=' * 60}")).id
    assert owner.erase(id, reason="requested").swept == ()
    assert lines_of(tape) == [other]
    assert os.path.exists(page)


@pytest.mark.parametrize("word", ["Decision", "tomorrow", "Meeting notes"])
def test_a_common_word_as_a_title_or_a_text_takes_no_line_of_others_along(owner, writer, root, word):
    others = [
        {"tool": "search", "arguments": {"query": word}, "result": f"{word} was made by others"},
        {"tool": "write", "arguments": {"title": word}},
    ]
    tape = put(root, "record/notes/.tapes/one/0001.jsonl", "".join(json.dumps(each) + "\n" for each in others))
    id = writer.write(draft(title=word, summary=word, body=word)).id
    owner.erase(id, reason="requested")
    assert lines_of(tape) == others


def test_short_texts_go_with_the_lines_that_name_their_entry(owner, writer, root):
    id = writer.write(draft(title="PIN", summary="The PIN is 4711.", body="")).id
    tape = put(
        root,
        "record/notes/.tapes/one/0001.jsonl",
        json.dumps({"tool": "get", "id": id, "result": "The PIN is 4711."}) + "\n",
    )
    owner.erase(id, reason="sensitive")
    assert lines_of(tape) == [{"erased": id}]


@pytest.mark.parametrize(
    "body",
    [
        'He said "no" to it.\nShe said "yes".\n\tAnd tabs.',
        "Überraschung für jeden.\n日本語の本文はここに。\nEnde.",
        "C:\\path\\to\\it and\nback\\slash",
        "Emoji \U0001f600 and more.\nSecond line.",
    ],
)
def test_a_text_is_found_however_often_json_wrapped_it(owner, writer, root, body):
    id = writer.write(draft(summary="s", body=body)).id
    once = json.dumps({"body": body})
    twice = json.dumps({"text": json.dumps({"body": body})})
    plain = json.dumps({"text": json.dumps({"body": body}, ensure_ascii=False)}, ensure_ascii=False)
    names = [f"state/cache/{number}.json" for number in range(3)]
    for name, text in zip(names, (once, twice, plain), strict=True):
        put(root, name, text)
    assert owner.erase(id, reason="requested").swept == tuple(names)


def test_a_text_is_found_as_the_frontmatter_of_a_copy_writes_it(owner, writer, root):
    summary = (
        'It\'s "quoted": a summary, with - marks # and {braces}; naïve \U0001f600 too, and long enough to be folded.'
    )
    id = writer.write(draft(title='No: one\'s "title" # here', summary=summary, body="")).id
    with open(os.path.join(root, "record", "notes", f"{id}.md"), encoding="utf-8") as file:
        text = file.read()
    put(root, "state/projection/notes/copy.md", text)
    put(root, "backup/copy.md", text)
    done = owner.erase(id, reason="requested")
    assert done.swept == ("state/projection/notes/copy.md",)
    assert [place.partition(":")[0] for place in done.left] == ["backup/copy.md"]


def test_a_bundle_of_another_domain_that_holds_it_loses_it_or_is_named(owner, writer, root, tmp_path):
    other = str(tmp_path / "other")
    Memory.init(other, domain="elsewhere")
    id = writer.write(draft()).id
    owner.export("notes", str(tmp_path / "bundle"))
    with Memory.open(other) as memory, memory.session(author="owner") as session:
        session.import_bundle(str(tmp_path / "bundle"), domain="elsewhere")
        session.export("elsewhere", os.path.join(root, "bundles", "one"))
    done = owner.erase(id, reason="requested")
    assert done.swept == ("bundles/one",)
    assert traces(root, BODY) == []


def test_what_is_reached_by_a_link_out_of_the_root_stays(owner, writer, root, tmp_path):
    id = writer.write(draft()).id
    owner.export("notes", str(tmp_path / "outside"))
    os.symlink(tmp_path / "outside", os.path.join(root, "linked"))
    bundle = os.path.join(root, "half")
    os.makedirs(bundle)
    with open(tmp_path / "outside" / "manifest.yaml", "rb") as file:
        put(root, "half/manifest.yaml", file.read())
    os.symlink(tmp_path / "outside" / "entries", os.path.join(bundle, "entries"))
    mine = tmp_path / "mine.md"
    mine.write_text(BODY)
    os.makedirs(os.path.join(root, "state", "projection"))
    os.symlink(mine, os.path.join(root, "state", "projection", "x.md"))
    os.symlink(tmp_path / "outside", os.path.join(root, "state", "projection", "y"))
    before = traces(str(tmp_path / "outside"), BODY)
    assert before
    owner.erase(id, reason="requested")
    assert traces(str(tmp_path / "outside"), BODY) == before
    assert mine.read_text() == BODY


def test_a_manifest_that_is_none_is_no_bundle_and_hides_nothing(owner, writer, root):
    id = writer.write(draft()).id
    put(root, "manifest.yaml", "kind: something else\n")
    put(root, "state/manifest.yaml", "[broken")
    put(root, "state/page.md", BODY)
    put(root, "state/projection/page.md", BODY)
    done = owner.erase(id, reason="requested")
    held = traces(root, BODY)
    assert all(any(place.startswith(name) for place in done.left) for name in held)
    assert held == []


def test_the_reason_of_an_earlier_rejection_goes_with_it(owner, writer, root):
    id = writer.write(draft()).id
    why = "Because the customer never lived at Quince Street 12, as was claimed."
    owner.reject(id, reason=why)
    owner.export("notes", os.path.join(root, "bundles", "one"))
    assert traces(root, why)
    owner.erase(id, reason="requested")
    assert traces(root, why) == []


def test_a_citing_entry_that_cannot_be_flagged_does_not_stop_it(owner, writer, root):
    id = writer.write(draft()).id
    citing = owner.write(draft(title="Citing", summary="cites", body=f"see {id}")).id
    owner.write(draft(id=citing, title="Citing", summary="cites again", body=f"see {id} there"))
    path = os.path.join(root, "record", "notes", f"{citing}.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    put("/", path[1:], text.replace("version: 2", "version: 1"))
    done = owner.erase(id, reason="requested")
    assert owner.receipt(id).finished
    assert citing in done.flagged or any(citing in place for place in done.left)


def test_an_entry_whose_file_is_gone_is_erased_with_its_history(owner, writer, root):
    id = writer.write(draft()).id
    writer.write(draft(id=id, summary="other", body="Another text that came after it, and stayed a while."))
    os.unlink(os.path.join(root, "record", "notes", f"{id}.md"))
    owner.erase(id, reason="requested")
    assert traces(root, BODY, "Another text that came after it, and stayed a while.") == []


def test_a_long_text_is_looked_for_in_a_large_root_in_reasonable_time(owner, writer, root):
    body = "\n".join(
        f"Line {number} of a long text that somebody pasted in, row {number * 7919}." for number in range(3000)
    )
    put(root, "state/cache/big.bin", os.urandom(1 << 20) * 16)
    id = writer.write(draft(body=body)).id
    put(root, "state/cache/holds.txt", "x" * 1000 + body.splitlines()[1777] + "y" * 100)
    began = time.perf_counter()
    done = owner.erase(id, reason="requested")
    took = time.perf_counter() - began
    assert done.swept == ("state/cache/holds.txt",)
    assert took < 20


def test_files_that_vanish_while_it_looks_do_not_stop_it(owner, writer, root, monkeypatch):
    id = writer.write(draft()).id
    gone = put(root, "state/cache/a.txt", "x")
    put(root, "state/cache/b.txt", BODY)
    real = os.lstat

    def lstat(path, **more):
        if os.fspath(path) == gone and os.path.exists(gone):
            os.unlink(gone)
        return real(path, **more)

    monkeypatch.setattr(os, "lstat", lstat)
    done = owner.erase(id, reason="requested")
    assert done.swept == ("state/cache/b.txt",)
    assert done.left == ()


def test_the_engines_files_are_left_to_the_engines(owner, writer, root):
    """The ledger holds ids and short words of its own; neither makes it a copy of a text."""
    task = owner.create_task(domain="notes", title="released", summary="released", body="available").task
    engines = {name for name in os.listdir(os.path.join(root, "state")) if name.startswith(("index.", "ledger."))}
    owner.erase(task.id, reason="requested")
    assert engines <= set(os.listdir(os.path.join(root, "state")))
    assert [node.task.id for node in owner.tasks()] == [task.id]


def test_every_file_below_state_has_an_owner_that_an_erasure_knows(owner, writer, root):
    writer.write(draft())
    owner.create_task(domain="notes", title="Task", summary="task")
    owner.search("zyzzyva")
    runtime = owner.runtime
    own = {*runtime.index.capabilities.files, *runtime.ledger.capabilities.files, "log", "locks", "decisions.jsonl"}
    made = {name for name in os.listdir(os.path.join(root, "state")) if not name.endswith(".lock")}
    assert made <= own
    assert {"index.sqlite", "ledger.sqlite"} <= made


def test_an_id_that_begins_another_takes_no_line_of_that_along(owner, root):
    other = {"tool": "get", "arguments": {"id": "mem-one-more"}, "result": "something else"}
    named = {"tool": "get", "arguments": {"id": "MEM-ONE"}, "result": "x"}
    tape = put(root, "record/notes/.tapes/one/1.jsonl", json.dumps(other) + "\n" + json.dumps(named) + "\n")
    put(root, "record/notes/mem-one.md", "---\ntype: fact\ntitle: One\nsummary: one\n---\nIts own text.\n")
    owner.reindex()
    owner.erase("mem-one", reason="requested")
    assert lines_of(tape) == [other, {"erased": "mem-one"}]


def test_a_part_of_a_very_long_text_is_found(owner, writer, root):
    body = "\n".join(
        f"Row {number}: the value that was measured there, {number * 7919 % 10007}." for number in range(60_000)
    )
    id = writer.write(draft(body=body)).id
    rows = body.splitlines()
    put(root, "state/cache/part.txt", "\n".join(rows[30_000:30_100]))
    put(root, "state/cache/other.txt", "\n".join(row.replace("measured", "guessed") for row in rows[:1000]))
    assert owner.erase(id, reason="requested").swept == ("state/cache/part.txt",)


def test_words_of_it_are_in_no_file_of_the_index(owner, writer, root):
    id = writer.write(draft(body="Xylorimba " * 50)).id
    for number in range(30):
        owner.write(
            draft(title=f"T{number}", summary=f"s{number}", body=f"Filler text {number} that says other things.")
        )
    owner.search("filler")
    owner.erase(id, reason="requested")
    for name in os.listdir(os.path.join(root, "state")):
        if name.startswith("index"):
            with open(os.path.join(root, "state", name), "rb") as file:
                assert b"ylorimba" not in file.read(), name


def test_an_entry_that_came_with_a_receipt_from_elsewhere_can_be_erased_here(owner, writer, root, tmp_path):
    other = str(tmp_path / "other")
    Memory.init(other, domain="notes")
    id = writer.write(draft()).id
    owner.export("notes", str(tmp_path / "before"))
    with Memory.open(other) as memory, memory.session(author="owner") as session:
        session.import_bundle(str(tmp_path / "before"))
        owner.erase(id, reason="requested")
        owner.export("notes", str(tmp_path / "after"))
        session.import_bundle(str(tmp_path / "after"))
        session.erase(id, reason="requested")
        assert traces(other, BODY, SUMMARY, TITLE) == []
        assert session.receipt(id).problem == ""
        assert session.receipt(id).finished


def test_a_task_that_is_erased_can_be_shown_claimed_and_handed_on(owner, agent, root):
    task = owner.create_task(domain="notes", title=TITLE, summary=SUMMARY, body=BODY).task
    child = owner.create_task(
        domain="notes", title="Child", summary="child", body="child", origin=f"task:{task.id}", upstream_event="one"
    ).task
    owner.erase(task.id, reason="requested")
    assert traces(root, BODY, SUMMARY, TITLE) == []
    shown = owner.claim(task.id)
    assert shown.task.id == task.id
    owner.release(task.id, fence=shown.task.fence)
    assert {node.task.id for node in owner.tasks()} >= {task.id}
    owner.reindex()
    assert owner.claim(task.id).task.id == task.id
    assert child.id in {node.task.id for node in owner.tasks()}


# -- bundles ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [False, True])
def test_a_bundle_is_one_still_wherever_its_cleaning_was_cut_short(owner, writer, root, tmp_path, after):
    why = "Because the customer never lived at Quince Street 12, as was claimed."
    id = writer.write(draft()).id
    other = writer.write(draft(title="Other", summary="other", body="other")).id
    owner.verify(id, oracle="human", evidence="They said so on the telephone, at length.", by="Ada")
    rejected = writer.write(draft(title="Rejected", summary="rejected", body="rejected")).id
    owner.reject(rejected, reason=why)
    owner.export("notes", str(tmp_path / "before"))
    for name in ("promotions.yaml", "tombstones.yaml"):
        assert os.path.exists(tmp_path / "before" / name)
    closings = [Closing(each, "notes", "requested", "owner", "2026-01-01T00:00:00.000000Z") for each in (id, rejected)]

    def clean(where):
        for closing in closings:
            bundle = bundle_at(where)
            if bundle.holds(closing):
                bundle.take_out(closing)
        return "done"

    for number in itertools.count(1):
        where = str(tmp_path / f"bundle-{number}")
        shutil.copytree(tmp_path / "before", where)
        outcome = killed_at(number, lambda where=where: clean(where), after=after)
        clean(where)
        assert traces(where, BODY, why, "They said so on the telephone, at length.") == []
        assert not [name for name in os.listdir(where) if "sweep" in name]
        fresh = str(tmp_path / f"root-{number}")
        Memory.init(fresh, domain="notes")
        with Memory.open(fresh) as memory, memory.session(author="owner") as session:
            assert session.import_bundle(where).ids == (other,)
            with pytest.raises(ConflictError, match="erased"):
                session.write(draft(title="Rejected", summary="rejected", body="rejected"))
        if outcome.killed_at is None:
            break


# -- receipts -----------------------------------------------------------------------------------------


def test_many_receipts_are_listed_in_one_reading_of_the_log(owner, writer):
    ids = [writer.write(draft(title=f"T{number}", summary="s", body=f"text {number}")).id for number in range(40)]
    for id in ids:
        owner.erase(id, reason="legal")
    log = type(owner.runtime.log)
    reads = []
    real = log.read

    def counted(self, domain, after=0):
        reads.append(domain)
        return real(self, domain, after=after)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "read", counted)
        assert all(receipt.problem == "" for receipt in owner.receipts())
    assert len(reads) < 4
    with pytest.raises(NotFoundError):
        owner.receipts(domain="nowhere")


def test_a_verification_that_came_with_a_bundle_goes_with_its_entry(owner, writer, root, tmp_path):
    other = str(tmp_path / "other")
    Memory.init(other, domain="notes")
    id = writer.write(draft()).id
    evidence = "They said so on the telephone, at length, and named the street."
    owner.verify(id, oracle="human", evidence=evidence, by="Ada Perambulator")
    owner.export("notes", str(tmp_path / "bundle"))
    with Memory.open(other) as memory, memory.session(author="owner") as session:
        session.import_bundle(str(tmp_path / "bundle"))
        assert traces(other, evidence)
        session.erase(id, reason="requested")
        assert traces(other, evidence, "Ada Perambulator") == []
        session.export("notes", str(tmp_path / "again"))
