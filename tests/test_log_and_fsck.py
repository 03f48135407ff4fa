"""The log checked, damaged and gone around; and what each rule of fsck finds, at which state, and what repairs it."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from datetime import date, timedelta

import pytest
from crashing import killed_at
from driving import amem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pages import blocks

from amem_core import Draft, Memory
from amem_core.domain.entries import Document
from amem_core.domain.events import NewEvent
from amem_core.errors import ConflictError, CorruptionError, UnavailableError
from amem_core.ports.store import NewVersion
from amem_core.services.spooling import Spool

DAY = date(2026, 1, 1)


def fact(title="Port", summary="staging listens on 8080", **fields):
    return Draft(domain="notes", type="fact", title=title, summary=summary, **fields)


def log_of(root):
    return os.path.join(root, "state", "log", "notes.jsonl")


def file_of(root, id):
    return os.path.join(root, "record", "notes", f"{id}.md")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def edit(path, *changes):
    text = read(path).decode()
    for old, new in changes:
        assert re.search(old, text, re.MULTILINE), (old, text)
        text = re.sub(old, new, text, count=1, flags=re.MULTILINE)
    write(path, text.encode())


def everything(root):
    """Return the bytes of every file of the truth: what fsck must not change."""
    found = {}
    for top in ("record", os.path.join("state", "log")):
        for directory, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                path = os.path.join(directory, name)
                found[os.path.relpath(path, root)] = read(path)
    return found


def busy(session):
    """Do one of each thing, so that the log has an event of each kind; return the ids of what is there."""
    first = session.write(fact()).id
    session.write(fact(summary="staging listens on 8081", id=first))
    old = session.write(fact("Box", "the box is in the cellar")).id
    new = session.write(fact("Box", "the box is in the attic", supersedes=(old,))).id
    session.write(fact("Made of it", "the attic is dry", derived_from=(new,)))
    wrong = session.write(fact("Wrong", "everything needs two approvals")).id
    session.reject(wrong, reason="one is enough")
    session.verify(new, oracle="data", evidence="seen", by="somebody")
    gone = session.write(fact("Gone", "nobody needs to know")).id
    session.erase(gone, reason="requested")
    task = session.create_task(domain="notes", title="Restore", summary="one file").task
    claimed = session.claim(task.id)
    session.create_task(domain="notes", title="Another", summary="two files")
    session.complete(task.id, fence=claimed.task.fence, result="restored")
    return [first, old, new, wrong, gone, task.id]


# -- the log ----------------------------------------------------------------------------------------


def test_a_log_that_is_whole_is_told_so_with_how_much_was_compared(owner, memory):
    busy(owner)
    (one,) = owner.verify_log()
    events = list(memory.runtime.log.read("notes"))
    assert (one.state, one.events, one.chain) == ("ok", len(events), events[-1].chain)
    assert (one.torn, one.breach, one.findings) == (0, None, ())
    versions = sum(len(memory.runtime.store.earlier_versions("notes", s.id)) + 1 for s in entries(memory))
    assert one.compared == versions


def entries(memory):
    return list(memory.runtime.store.entries("notes"))


@pytest.mark.parametrize("place", [0, 1, 2, -1], ids=["the first", "the second", "the third", "the last"])
@pytest.mark.parametrize("what", ["changed", "not JSON", "taken out", "put in twice", "exchanged with the next"])
def test_the_first_break_is_named_by_line_and_event_and_is_an_alarm(root, owner, place, what):
    for number in range(6):
        owner.write(fact(f"Port {number}", "staging listens"))
    lines = read(log_of(root)).splitlines(keepends=True)
    place %= len(lines)
    spoilt = {
        "changed": [lines[place].replace(b"owner", b"0wner")],
        "not JSON": [b"{" + lines[place]],
        "taken out": [],
        "put in twice": [lines[place]] * 2,
        "exchanged with the next": [*lines[place + 1 : place + 2], lines[place]],
    }[what]
    rest = lines[place + 2 :] if what.startswith("exchanged") else lines[place + 1 :]
    write(log_of(root), b"".join([*lines[:place], *spoilt, *rest]))
    (one,) = owner.verify_log()
    if place == len(lines) - 1 and what in {"taken out", "exchanged with the next"}:
        # The end alone is missing, or nothing is changed: the chain cannot show that, the index can.
        assert [finding.rule for finding in one.findings] == (["log-cut-short"] if what == "taken out" else [])
        assert one.breach is None
        return
    assert one.state == "alarm"
    assert one.breach.line == place + 1 + (what == "put in twice")
    assert one.breach.seq == place + 1 + (what == "put in twice")
    assert one.breach.reason
    # What stands behind the break was read all the same, unless nothing does.
    assert one.events >= len(lines) - 2


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_byte_of_a_log_can_be_changed_unseen(data, tmp_path_factory):
    root = str(tmp_path_factory.mktemp("root") / "root")
    Memory.init(root, domain="notes")
    with Memory.open(root) as memory, memory.session(author="owner") as session:
        session.write(fact("Port", "staging listens"))
        session.write_many([fact(f"Port {number}", "staging listens") for number in range(2)])
        whole = bytearray(read(log_of(root)))
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[at]))
        write(log_of(root), bytes(whole))
        assert session.verify_log()[0].state == "alarm"


@pytest.mark.parametrize("torn", [b'{"seq": 7, "ki', b"\x00\x00", b" ", b"{"])
def test_a_torn_end_is_told_as_such_and_is_no_alarm_and_the_next_writer_repairs_it(root, owner, torn):
    owner.write(fact())
    whole = read(log_of(root))
    write(log_of(root), whole + torn)
    (one,) = owner.verify_log()
    assert (one.state, one.torn, one.breach) == ("warning", len(torn), None)
    assert [(f.rule, f.state) for f in owner.fsck().findings] == [("log-torn", "warning")]
    assert read(log_of(root)) == whole + torn
    owner.write(fact("Next", "the next write succeeds"))
    assert owner.verify_log()[0].state == "ok"
    assert read(log_of(root)).startswith(whole)


def test_a_log_without_its_last_line_feed_is_whole_after_the_next_write(root, owner):
    owner.write(fact())
    write(log_of(root), read(log_of(root))[:-1])
    assert owner.verify_log()[0].torn > 0
    owner.write(fact("Next", "the next write succeeds"))
    (one,) = owner.verify_log()
    assert (one.state, one.events) == ("ok", 2)


def test_a_digest_that_is_not_the_logs_is_an_alarm_in_the_current_version_and_behind_it(root, owner):
    id = owner.write(fact()).id
    owner.write(fact(summary="staging listens on 8081", id=id))
    current = read(file_of(root, id))
    edit(file_of(root, id), (r"8081", "9090"))
    (one,) = owner.verify_log()
    assert (one.state, [(f.rule, f.id) for f in one.findings]) == ("alarm", [("file-edited", id)])
    write(file_of(root, id), current)
    assert owner.verify_log()[0].state == "ok"
    history = os.path.join(root, "record", "notes", ".history", id, "1.md")
    edit(history, (r"8080", "9090"))
    (one,) = owner.verify_log()
    assert [(f.rule, f.id, f.path) for f in one.findings] == [
        ("version-differs", id, f"record/notes/.history/{id}/1.md")
    ]


def test_an_abandoned_write_and_an_erased_entry_are_no_break(root, owner, memory, monkeypatch):
    busy(owner)
    abandon(owner, memory, monkeypatch)
    assert [one.state for one in owner.verify_log()] == ["ok"]
    assert owner.fsck().findings == ()


def abandon(owner, memory, monkeypatch):
    """Let a write be logged and its bytes be lost, as a crash between the two leaves it."""

    def failing(*_):
        message = "the disk went away"
        raise UnavailableError(message)

    with monkeypatch.context() as patch:
        patch.setattr(memory.runtime.store, "publish", failing)
        with pytest.raises(UnavailableError):
            owner.write(fact("Lost", "nobody was told of it"))
    (staged,) = memory.runtime.store.staged("notes")
    memory.runtime.store.discard("notes", staged.id, staged.version)
    owner.search("lost")


def damage(root, line=1):
    lines = read(log_of(root)).splitlines(keepends=True)
    lines[line] = lines[line].replace(b"owner", b"0wner")
    write(log_of(root), b"".join(lines))


@pytest.mark.parametrize("line", [1, -1], ids=["in the middle", "at the end"])
def test_reads_go_on_behind_damage_and_say_so_and_writes_are_refused(root, line):
    with Memory.open(root) as memory, memory.session(author="owner") as session:
        ids = [session.write(fact(f"Port {number}", "staging listens")).id for number in range(3)]
        mark = memory.runtime.index.watermark("notes")
        # The index is behind, so that it would have to follow the log over the damage.
        memory.runtime.index.apply("notes", [], through=1)
        assert mark == 3
    damage(root, line)
    with Memory.open(root) as memory, memory.session(author="owner") as session:
        for _ in range(2):
            found = session.search("staging")
            assert len(found.hits) == 3
            assert "log of notes is damaged" in found.notices[0]
        reading = session.get(ids[0])
        assert "log of notes is damaged" in reading.notices[0]
        assert "log of notes is damaged" in session.recall("staging").notices[0]
        assert "the log of notes is damaged" in session.t0().text
        with pytest.raises(CorruptionError):
            session.write(fact("Next", "a write"))
        if line == 1:
            (done,) = session.materialize()
            assert "line 2" in done.damage
        else:
            with pytest.raises(CorruptionError):
                session.materialize()
    assert amem("search", "staging", root=root).out.count("Port") == 3
    assert amem("log", "verify", root=root, code=3).out.startswith("alarm")
    assert amem("doctor", root=root, code=3)
    assert amem("fsck", root=root, code=3)


def test_damage_is_gone_around_by_a_rebuild_that_says_so_and_takes_nothing_in(root, owner, memory):
    ids = [owner.write(fact(f"Port {number}", "staging listens")).id for number in range(3)]
    damage(root, 1)
    edit(file_of(root, ids[2]), (r"staging listens", "staging is deaf"))
    before = everything(root)
    with pytest.raises(CorruptionError, match="line 2"):
        owner.reindex()
    (done,) = owner.materialize()
    assert "line 2" in done.damage
    assert (done.adopted, done.entries) == ((), 3)
    assert {one.path for one in done.refused} == {f"record/notes/{ids[1]}.md", f"record/notes/{ids[2]}.md"}
    assert everything(root) == before
    assert {hit.id for hit in owner.search("staging").hits} == set(ids)
    # The one whose event was lost is known again by its next version.
    assert owner.write(fact("Port 1", "staging listens well", id=ids[1])).version == 2
    assert {hit.id for hit in owner.search("staging listens").hits} >= {ids[0], ids[1]}
    assert owner.verify_log()[0].state == "alarm"


def test_an_index_that_was_lost_beside_a_damaged_log_is_an_error_that_says_what_to_do(root):
    with Memory.open(root) as memory, memory.session(author="owner") as session:
        for number in range(3):
            session.write(fact(f"Port {number}", "staging listens"))
    damage(root, 1)
    for name in os.listdir(os.path.join(root, "state")):
        if name.startswith("index"):
            os.unlink(os.path.join(root, "state", name))
    with Memory.open(root) as memory, memory.session(author="owner") as session:
        with pytest.raises(CorruptionError) as caught:
            session.search("staging")
        assert "amem reindex" in caught.value.hint
        session.materialize()
        assert len(session.search("staging").hits) == 3


def test_the_command_line_says_where_the_break_is_and_gives_the_code(root, owner):
    for number in range(3):
        owner.write(fact(f"Port {number}", "staging listens"))
    assert "3 events" in amem("log", "verify", root=root).out
    damage(root, 1)
    told = amem("log", "verify", root=root, code=3)
    assert "first break at line 2, event 2" in told.out
    (one,) = amem("log", "verify", "--json", root=root, code=3).json["domains"]
    assert (one["state"], one["breach"]["line"], one["breach"]["seq"]) == ("alarm", 2, 2)
    told = amem("log", "materialize", root=root, code=3)
    assert "alarm: the log of notes is damaged" in told.err


def test_the_command_line_reports_what_was_taken_in_and_what_is_missing(root, owner):
    ids = [owner.write(fact(f"Port {number}", "staging listens")).id for number in range(2)]
    edit(file_of(root, ids[0]), (r"staging listens", "staging is deaf"))
    os.unlink(file_of(root, ids[1]))
    told = amem("log", "materialize", root=root)
    assert told.out == "notes: 1 entries, 2 versions, 0 tasks\n"
    assert f"{ids[0]} was made or changed by hand; it is version 2 now" in told.err
    assert f"{ids[1]} is named by the log and has no file" in told.err
    (one,) = amem("log", "materialize", "--json", root=root).json["domains"]
    assert (one["adopted"], one["missing"]) == ([], [ids[1]])


def test_an_agent_may_neither_check_nor_rebuild(agent):
    for call in (agent.materialize, agent.verify_log, agent.fsck):
        with pytest.raises(Exception, match="only the owner"):
            call()


def checked_without_amem(root):
    """Run the program of the page on the log, as a third party would; return its exit code and what it printed."""
    (program,) = (block.text for block in blocks("docs/format/log.md") if block.language == "python")
    done = subprocess.run([sys.executable, "-I", "-c", program, root], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_third_party_checks_a_log_with_ten_lines_and_comes_to_the_same(root, owner, memory):
    ids = busy(owner)
    edit(file_of(root, ids[0]), (r"8081", "9090"))
    owner.reindex()
    (one,) = owner.verify_log()
    assert checked_without_amem(root) == (0, f"notes.jsonl: {one.events} events, last chain {one.chain}\n")
    edit(file_of(root, ids[0]), (r"9090", "9091"))
    code, told = checked_without_amem(root)
    assert (code, f"{ids[0]}.md" in told) == (1, True)
    damage(root, 2)
    code, told = checked_without_amem(root)
    assert (code, "notes.jsonl, line 3" in told) == (1, True)


# -- fsck -------------------------------------------------------------------------------------------


def test_a_root_in_use_has_nothing_to_be_found(owner, memory):
    busy(owner)
    done = owner.fsck()
    assert (done.state, done.findings, done.repaired) == ("ok", (), ())
    (one,) = done.domains
    assert (one.entries, one.tasks, one.events) == (len(entries(memory)), 2, memory.runtime.log.head("notes"))
    assert [check for check in memory.doctor() if check.state != "ok"] == []


def spoil_ledger(root, sql):
    with sqlite3.connect(os.path.join(root, "state", "ledger.sqlite")) as connection:
        assert connection.execute(sql).rowcount > 0
    connection.close()


class Spoilt:
    """One way to spoil a root in use, by the rule that finds it."""

    def __init__(self, root, memory, owner):
        self.root, self.memory, self.owner = root, memory, owner
        self.runtime = memory.runtime
        self.first, self.old, self.new, self.wrong, self.gone, self.task = busy(owner)

    def rewritten(self, id, *changes):
        """Change a file by hand and take it in."""
        edit(file_of(self.root, id), *changes)
        self.owner.reindex()

    def log_torn(self):
        write(log_of(self.root), read(log_of(self.root)) + b'{"torn')

    def log_damaged(self):
        damage(self.root, 1)

    def log_cut_short(self):
        self.owner.write(fact("Last", "the last of them"))
        lines = read(log_of(self.root)).splitlines(keepends=True)
        write(log_of(self.root), b"".join(lines[:-1]))
        os.unlink(max((file_of(self.root, stored.id) for stored in entries(self.memory)), key=os.path.getmtime))

    def file_broken(self):
        edit(file_of(self.root, self.first), (r"title: .*", "title: a: b"))

    def file_edited(self):
        edit(file_of(self.root, self.first), (r"8081", "9090"))

    def file_unlogged(self):
        write(file_of(self.root, "mem-byhand"), b"---\ntitle: Herons\n---\n")

    def file_missing(self):
        os.unlink(file_of(self.root, self.new))

    def file_displaced(self):
        shutil.copy(
            os.path.join(self.root, "record", "notes", ".history", self.first, "1.md"), file_of(self.root, self.first)
        )

    def file_unreadable(self):
        real = self.runtime.store.read

        def failing(domain, id, version=None):
            if id == self.first and version is None:
                message = f"{id}.md cannot be read: permission denied"
                raise UnavailableError(message)
            return real(domain, id, version)

        self.runtime.store.read = failing

    def history_orphaned(self):
        os.unlink(file_of(self.root, self.first))

    def version_differs(self):
        edit(os.path.join(self.root, "record", "notes", ".history", self.first, "1.md"), (r"8080", "9090"))

    def version_missing(self):
        os.unlink(os.path.join(self.root, "record", "notes", ".history", self.first, "1.md"))

    def version_unlogged(self):
        write(
            os.path.join(self.root, "record", "notes", ".history", self.first, "9.md"),
            read(file_of(self.root, self.first)).replace(b"8081", b"9090"),
        )

    def write_unfinished(self):
        def failing(*_):
            message = "the disk went away"
            raise UnavailableError(message)

        real, self.runtime.store.publish = self.runtime.store.publish, failing
        with pytest.raises(UnavailableError):
            self.owner.write(fact("Cut short", "it is in the log already"))
        self.runtime.store.publish = real

    def staging_left(self):
        from amem_core.format.entry import digest

        data = b"---\ntitle: Left\n---\n"
        self.runtime.store.stage("notes", [NewVersion("mem-left", 1, data, digest(data), None)])

    def index_behind(self):
        self.owner.write(fact("Early", "it is in the index"))
        real = self.runtime.index.apply

        def failing(*_, **__):
            message = "the index is busy"
            raise UnavailableError(message)

        self.runtime.index.apply = failing
        assert self.owner.write(fact("Late", "it is not in the index yet")).notices
        self.runtime.index.apply = real

    def index_differs(self):
        entry = self.owner.get(self.first).entry
        document = Document(entry, "0" * 64, entry.updated)
        self.runtime.index.apply("notes", [document], through=self.runtime.log.head("notes"))

    def index_orphaned(self):
        entry = replace(self.owner.get(self.first).entry, id="mem-nowhere", version=1)
        self.runtime.index.apply(
            "notes", [Document(entry, "0" * 64, entry.updated)], through=self.runtime.log.head("notes")
        )

    def index_unavailable(self):
        self.memory.runtime.index.close()
        path = os.path.join(self.root, "state", "index.sqlite")
        for suffix in ("-wal", "-shm"):
            if os.path.exists(path + suffix):
                os.unlink(path + suffix)
        write(path, b"no database" * 1000)
        self.runtime._ports.pop("index")

    def ledger_differs(self):
        spoil_ledger(self.root, f"UPDATE task SET priority = 1 WHERE id = '{self.task}'")

    def ledger_behind(self):
        self.runtime.ledger.claim_next(
            self.owner.readable, holder="session:x", lease=timedelta(hours=1), now=self.runtime.clock.now()
        )

    def ledger_unavailable(self):
        self.runtime.ledger.close()
        self.runtime._ports.pop("ledger")
        for name in os.listdir(os.path.join(self.root, "state")):
            if name.startswith("ledger.sqlite"):
                os.unlink(os.path.join(self.root, "state", name))
        write(os.path.join(self.root, "state", "ledger.sqlite"), b"no database" * 1000)

    def ledger_unfollowable(self):
        event = NewEvent("task.completed", self.task, "owner", self.runtime.clock.now(), {"revision": 99, "fence": 1})
        with self.runtime.log.writer("notes") as writer:
            writer.append([event])
            self.runtime.ledger.relayed("notes", number=0, through=writer.head)

    def file_erased(self):
        write(file_of(self.root, self.gone), b"---\ntitle: Gone\nsummary: nobody needs to know\n---\n")

    def log_unavailable(self):
        def failing(*_, **__):
            message = "the log cannot be read: permission denied"
            raise UnavailableError(message)

        self.runtime.log.read = failing

    def record_unavailable(self):
        def failing(*_):
            message = "the record cannot be listed: permission denied"
            raise UnavailableError(message)

        self.runtime.store.entries = failing

    def link_dangling(self):
        self.rewritten(self.first, (r"status: active", "status: active\nderived_from: [mem-nowhere]"))

    def link_one_way(self):
        self.rewritten(self.first, (r"status: active", f"status: superseded\nsuperseded_by: {self.new}"))

    def link_conflict(self):
        self.rewritten(self.first, (r"status: active", f"status: active\nsupersedes: [{self.old}]"))

    def link_cycle(self):
        self.rewritten(self.new, (r"status: active", f"status: superseded\nsuperseded_by: {self.old}"))

    def review_due(self):
        self.owner.write(fact("Due", "it wants a look", review_by=DAY))

    def source_gone(self):
        self.owner.write(fact("Sourced", "it came from a file", source=(f"file:{self.root}/nowhere.md#top",)))

    def source_changed(self):
        path = os.path.join(self.root, "..", "source.md")
        write(path, b"text")
        self.owner.write(fact("Sourced", "it came from a file", source=(f"file:{os.path.abspath(path)}#top",)))
        os.utime(path, (4e9, 4e9))

    def tombstone_missing(self):
        shutil.rmtree(os.path.join(self.root, "record", "notes", ".tombstones"))

    def tombstone_broken(self):
        directory = os.path.join(self.root, "record", "notes", ".tombstones")
        for name in os.listdir(directory):
            write(os.path.join(directory, name), b"{")

    def receipt_broken(self):
        write(os.path.join(self.root, "record", "notes", ".erasures", f"{self.gone}.yaml"), b"{")

    def erasure_unfinished(self):
        path = os.path.join(self.root, "record", "notes", ".erasures", f"{self.gone}.yaml")
        receipt = json.loads(read(path))
        receipt["finished"] = False
        write(path, json.dumps(receipt).encode())


# The rule, its state, whether --repair mends it.
RULES = {
    "log-torn": ("warning", True),
    "log-damaged": ("alarm", False),
    "log-cut-short": ("alarm", True),
    "log-unavailable": ("alarm", False),
    "record-unavailable": ("alarm", False),
    "file-broken": ("alarm", False),
    "file-erased": ("alarm", False),
    "file-edited": ("alarm", True),
    "file-unlogged": ("warning", True),
    "file-missing": ("alarm", False),
    "file-displaced": ("alarm", False),
    "file-unreadable": ("alarm", False),
    "history-orphaned": ("alarm", False),
    "version-differs": ("alarm", False),
    "version-missing": ("alarm", False),
    "version-unlogged": ("warning", False),
    "write-unfinished": ("warning", True),
    "staging-left": ("warning", True),
    "index-behind": ("warning", True),
    "index-differs": ("alarm", True),
    "index-orphaned": ("alarm", True),
    "index-unavailable": ("alarm", True),
    "ledger-differs": ("alarm", True),
    "ledger-behind": ("warning", True),
    "ledger-unavailable": ("alarm", True),
    "ledger-unfollowable": ("alarm", False),
    "link-dangling": ("warning", False),
    "link-one-way": ("warning", True),
    "link-conflict": ("warning", False),
    "link-cycle": ("alarm", False),
    "review-due": ("warning", False),
    "source-gone": ("warning", False),
    "source-changed": ("warning", False),
    "tombstone-missing": ("alarm", True),
    "tombstone-broken": ("alarm", True),
    "receipt-broken": ("alarm", False),
    "erasure-unfinished": ("alarm", False),
}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_found_with_its_state_and_remedy_and_changes_nothing_until_it_is_repaired(
    root, memory, owner, rule
):
    state, mended = RULES[rule]
    spoilt = Spoilt(root, memory, owner)
    getattr(spoilt, rule.replace("-", "_"))()
    before = everything(root)
    done = owner.fsck()
    found = [finding for finding in done.findings if finding.rule == rule]
    assert found, done.findings
    assert {finding.state for finding in found} == {state}
    assert all(finding.detail and finding.remedy for finding in found)
    assert done.state in {state, "alarm"}
    assert everything(root) == before
    checks = [check for check in memory.doctor() if check.detail.endswith(found[0].detail)]
    assert [check.state for check in checks[:1]] == [state]
    repaired = owner.fsck(repair=True)
    left = {finding.rule for finding in repaired.findings}
    assert (rule not in left) == mended, repaired
    assert bool(repaired.repaired) >= mended
    # Nothing that was there is gone.
    kept = everything(root)
    lost = {path for path in before if path not in kept and ".staging" not in path}
    assert lost == set()
    again = owner.fsck(repair=True)
    assert again.repaired == () or not mended, again
    assert [f.rule for f in again.findings] == [f.rule for f in repaired.findings]


def test_a_link_that_is_kept_one_way_is_returned_by_a_version_with_the_text_as_it_was(root, owner):
    old, new = owner.write(fact("Old", "it was so")).id, owner.write(fact("New", "it is so")).id
    edit(file_of(root, new), (r"status: active", f"status: active\nsupersedes: [{old}]"))
    done = owner.fsck(repair=True)
    assert (done.state, done.findings) == ("ok", ())
    assert owner.get(old).head == new
    assert owner.get(old).entry.summary == "it was so"
    assert [hit.id for hit in owner.search("so").hits] == [new]


def test_a_repair_may_be_killed_at_any_step_and_the_next_one_finishes_it(tmp_path):
    root = str(tmp_path / "root")
    Memory.init(root, domain="notes")
    with Memory.open(root) as memory, memory.session(author="owner") as session:
        old, new = session.write(fact("Old", "it was so")).id, session.write(fact("New", "it is so")).id
        wrong = session.write(fact("Wrong", "everything needs two approvals")).id
        session.reject(wrong, reason="one is enough")
    edit(file_of(root, new), (r"status: active", f"status: active\nsupersedes: [{old}]"))
    shutil.rmtree(os.path.join(root, "record", "notes", ".tombstones"))
    write(log_of(root), read(log_of(root)) + b'{"torn')

    def act(root):
        with Memory.open(root) as memory, memory.session(author="owner") as session:
            return session.fsck(repair=True).state

    for number in itertools.count(1):
        assert number < 300
        copy = str(tmp_path / f"copy-{number}")
        shutil.copytree(root, copy)
        outcome = killed_at(number, lambda copy=copy: act(copy), after=False)
        with Memory.open(copy) as memory, memory.session(author="owner") as session:
            done = session.fsck(repair=True)
            assert (done.state, done.findings) == ("ok", ())
            assert (session.get(old).head, session.get(new).entry.version) == (new, 2)
            with pytest.raises(ConflictError, match="one is enough"):
                session.write(fact("Wrong", "everything needs two approvals"))
            assert session.fsck(repair=True).repaired == ()
        shutil.rmtree(copy)
        if outcome.killed_at is None:
            break


def test_the_command_line_gives_three_for_an_alarm_and_nought_for_a_warning(root, owner):
    id = owner.write(fact("Due", "it wants a look", review_by=DAY)).id
    told = amem("fsck", root=root)
    assert "0 alarms, 1 warnings" in told.err
    assert f"warning: notes: {id}: it was to be reviewed by 2026-01-01" in told.err
    edit(file_of(root, id), (r"it wants a look", "it wants two"))
    told = amem("fsck", "--domain", "notes", root=root, code=3)
    assert f"alarm: notes: record/notes/{id}.md: its bytes are not those that the log names as version 1" in told.err
    told = amem("fsck", "--repair", root=root)
    assert f"repaired notes: took {id} in as version 2 by the owner" in told.err
    document = amem("fsck", "--json", root=root).json
    assert (document["state"], [one["rule"] for one in document["findings"]]) == ("warning", ["review-due"])


def test_a_check_beside_writers_raises_no_alarm(root, owner, memory):
    """Each step of a write is followed by a whole check, as if it came just then."""
    busy(owner)
    found = []

    def looking(target, name):
        real = getattr(target, name)

        def call(*args, **kwargs):
            result = real(*args, **kwargs)
            with Memory.open(root) as other, other.session(author="owner") as session:
                found.extend(f for f in session.fsck().findings if f.state == "alarm")
                found.extend(f for one in session.verify_log() for f in one.findings if f.state == "alarm")
            return result

        setattr(target, name, call)

    store, index, ledger = memory.runtime.store, memory.runtime.index, memory.runtime.ledger
    for target, name in (
        (store, "stage"),
        (store, "publish"),
        (index, "apply"),
        (ledger, "claim"),
        (ledger, "relayed"),
    ):
        looking(target, name)
    id = owner.write(fact("New", "written beside a check")).id
    owner.write(fact("New", "changed beside a check", id=id))
    owner.write(fact("Newer", "supersedes beside a check", supersedes=(id,)))
    task = owner.create_task(domain="notes", title="Beside", summary="a check").task
    owner.claim(task.id)
    assert found == []


def test_what_is_written_while_a_check_runs_is_no_fault_of_the_root(root, owner, memory):
    ids = busy(owner)
    with Memory.open(root) as other, other.session(author="owner") as busy_one:
        real = memory.runtime.store.entries

        def listing(domain):
            for number, stored in enumerate(real(domain)):
                if number == 1:
                    busy_one.write(fact(summary="staging listens elsewhere", id=ids[0]))
                    busy_one.write(fact("Meanwhile", "it came while the check ran"))
                    busy_one.claim_next()
                yield stored

        memory.runtime.store.entries = listing
        assert owner.fsck().findings == ()


def test_a_check_of_a_larger_root_takes_no_more_memory(tmp_path):
    def peak(count):
        root = str(tmp_path / str(count))
        Memory.init(root, domain="notes")
        with Memory.open(root) as memory, memory.session(author="owner") as session:
            for begin in range(0, count, 250):
                session.write_many(
                    [fact(f"Port {n}", "listens", body="text " * 400) for n in range(begin, begin + 250)]
                )
            peaks = []
            for call in (session.fsck, session.verify_log, session.materialize):
                tracemalloc.start()
                call()
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
        return peaks

    for small, large in zip(peak(250), peak(1500), strict=True):
        assert large < small + 1_500_000


@given(
    st.lists(
        st.tuples(st.text("ab-", max_size=3), st.integers(0, 99), st.binary(max_size=40).map(bytes.hex)), max_size=60
    ),
    st.integers(1, 400),
)
def test_a_spool_gives_back_what_was_added_key_by_key_in_order_however_little_it_holds(lines, most):
    with Spool(most_bytes=most) as spool:
        for key, number, payload in lines:
            spool.add(key, number, payload.encode())
        expected = {}
        for key, _, payload in sorted(lines):
            expected.setdefault(key, []).append(payload.encode())
        for _ in range(2):
            assert list(spool.groups()) == sorted(expected.items())


def test_progress_is_told_by_everything_that_takes_long(owner):
    owner.write_many([fact(f"Port {number}", "listens") for number in range(20)])
    for call in (owner.fsck, owner.verify_log, owner.materialize):
        told = []
        call(progress=lambda domain, done, told=told: told.append((domain, done)))
        assert told[-1] == ("notes", 20)


def test_what_was_known_at_a_time_does_not_change_by_a_rebuild_after_events_of_all_kinds(owner, clock):
    ids = busy(owner)
    clock.advance(hours=1)
    owner.write(fact(summary="staging listens on 8082", id=ids[0]))
    then = clock.now() - timedelta(minutes=1)
    before = owner.search("staging", as_of=then).hits
    owner.materialize()
    assert owner.search("staging", as_of=then).hits == before


def test_an_event_of_a_kind_that_nobody_knows_disturbs_nothing(owner, memory, clock):
    owner.write(fact())
    with memory.runtime.log.writer("notes") as writer:
        writer.append([NewEvent("import.begun", "f" * 64, "owner", clock.now(), {"entries": 1})])
        writer.append([NewEvent("entry.looked-at", "mem-somewhere", "owner", clock.now(), {})])
    owner.search("staging")
    assert owner.fsck().findings == ()
    assert owner.verify_log()[0].state == "ok"
