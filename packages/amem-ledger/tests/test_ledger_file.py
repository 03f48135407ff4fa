"""The file behind the ledger: its form, its damage, its place on the disk, and what is said of each."""

from __future__ import annotations

import errno
import hashlib
import os
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from amem_core.domain.events import Event
from amem_core.domain.labels import Label
from amem_core.domain.queries import ReadFilter
from amem_core.domain.tasks import NewTask
from amem_core.errors import CorruptionError, UnavailableError, UnknownFormatError
from amem_ledger import _database, _schema
from amem_ledger.config import SqliteSettings
from amem_ledger.sqlite import open_ledger

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(minutes=10)
ALL = ReadFilter({"d": Label.restricted, "e": Label.restricted})


@pytest.fixture
def root(tmp_path):
    return str(tmp_path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "ledger.sqlite"


@pytest.fixture
def ledger(root):
    opened = open_ledger(root, SqliteSettings())
    yield opened
    opened.close()


def file(ledger, *ids, domain="d"):
    for id in ids:
        ledger.file(NewTask(id=id, domain=domain, label=Label.internal), actor="owner", now=NOW)


def claim(ledger, holder="session:one", limit=1):
    return ledger.claim_next(ALL, holder=holder, lease=LEASE, now=NOW, limit=limit)


def events(ledger, domain="d"):
    sent = [item.event for item in ledger.outgoing(domain)]
    return [
        Event(domain, seq, event.kind, event.subject, event.actor, event.time, event.data, "")
        for seq, event in enumerate(sent, 1)
    ]


def rebuild(ledger, told=()):
    return ledger.rebuild("d", iter(told), through=len(told))


def everything(ledger):
    return ledger.tasks(ALL, now=NOW, limit=10_000)


def test_opening_touches_nothing_until_the_ledger_is_used(root, path):
    ledger = open_ledger(root, SqliteSettings())
    assert not path.parent.exists()
    assert ledger.watermark("d") == 0
    assert path.exists()
    ledger.close()


def test_a_newer_file_is_refused_with_both_numbers_and_left_as_it_is(root, path, ledger):
    file(ledger, "mem-a")
    ledger.close()
    newer = sqlite3.connect(path)
    newer.execute(f"PRAGMA user_version = {_schema.VERSION + 1}")
    newer.close()
    before = path.read_bytes()
    reopened = open_ledger(root, SqliteSettings())
    for call in (lambda: reopened.watermark("d"), lambda: file(reopened, "mem-b"), lambda: rebuild(reopened)):
        with pytest.raises(UnknownFormatError, match=rf"{_schema.VERSION + 1}.*{_schema.VERSION}") as caught:
            call()
        assert "upgrade" in caught.value.hint
    reopened.close()
    assert path.read_bytes() == before


def test_a_file_that_has_taken_no_step_takes_them_all(root, path, ledger):
    path.parent.mkdir()
    path.touch()
    file(ledger, "mem-a")
    assert [task.id for task in everything(ledger)] == ["mem-a"]
    found = sqlite3.connect(path)
    assert found.execute("PRAGMA user_version").fetchone() == (_schema.VERSION,)
    assert found.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    found.close()


def test_a_step_that_fails_leaves_the_file_at_the_step_before(root, path, monkeypatch):
    monkeypatch.setattr(_schema, "STEPS", (*_schema.STEPS, ("CREATE TABLE more (id)", "CREATE TABLE more (id)")))
    with pytest.raises(UnavailableError):
        open_ledger(root, SqliteSettings()).watermark("d")
    found = sqlite3.connect(path)
    assert found.execute("PRAGMA user_version").fetchone() == (0,)
    assert found.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    found.close()


def test_a_later_step_is_taken_by_a_file_in_use(root, ledger, monkeypatch):
    file(ledger, "mem-a")
    ledger.close()
    monkeypatch.setattr(_schema, "STEPS", (*_schema.STEPS, ("ALTER TABLE task ADD COLUMN later TEXT",)))
    monkeypatch.setattr(_schema, "VERSION", 2)
    monkeypatch.setattr(_database, "VERSION", 2)
    reopened = open_ledger(root, SqliteSettings())
    assert [task.id for task in everything(reopened)] == ["mem-a"]
    reopened.close()


def test_the_first_step_is_the_one_that_was_released():
    text = "\n".join(" ".join(statement.split()) for statement in _schema.STEPS[0])
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "816313bbcde2851a7d9e4f06aa29f27ed2b1f6d3fda99aa3a9ed8cd6f070098d"
    )


def test_a_deleted_file_is_an_empty_ledger_that_follows_the_log(root, path, ledger):
    file(ledger, "mem-a")
    claim(ledger)
    before, told = everything(ledger), events(ledger)
    ledger.close()
    path.unlink()
    reopened = open_ledger(root, SqliteSettings())
    assert (everything(reopened), reopened.watermark("d")) == ([], 0)
    reopened.apply("d", told, through=2)
    assert everything(reopened) == before
    reopened.close()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_taken_away_while_open_is_not_gone_on_with(root, path, ledger, replaced):
    file(ledger, "mem-a")
    for each in path.parent.glob("ledger.sqlite*"):
        each.unlink()
    other = open_ledger(root, SqliteSettings())
    if replaced:
        file(other, "mem-b")
    for call in (lambda: claim(ledger), lambda: everything(ledger), lambda: file(ledger, "mem-c")):
        with pytest.raises(UnavailableError, match=r"ledger\.sqlite") as caught:
            call()
        assert "open the memory again" in caught.value.hint
    assert [task.id for task in everything(other)] == ["mem-b"] * replaced
    other.close()


def damage(path, how):
    if how == "no database":
        path.write_bytes(b"not a database, by any means" * 500)
    elif how == "a page of nothing":
        data = bytearray(path.read_bytes())
        for page in range(1, len(data) // 2048):
            data[page * 2048 : page * 2048 + 200] = bytes(200)
        path.write_bytes(data)
    elif how == "no table":
        made = sqlite3.connect(path)
        made.execute("DROP TABLE outbox")
        made.close()


def break_in_place(ledger, path):
    with ledger._database.reading() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path.write_bytes(b"broken" * 2000)


@pytest.mark.parametrize("how", ["no database", "a page of nothing", "no table"])
def test_a_damaged_file_says_so_and_a_rebuild_starts_a_new_one(root, path, ledger, how):
    file(ledger, *(f"mem-{number}" for number in range(40)))
    claim(ledger)
    before, told = everything(ledger), events(ledger)
    ledger.close()
    damage(path, how)
    broken = path.read_bytes()
    reopened = open_ledger(root, SqliteSettings())
    with pytest.raises(UnavailableError, match="damaged") as caught:
        file(reopened, "mem-x")
    assert "amem reindex" in caught.value.hint
    assert rebuild(reopened, told) == len(before)
    assert everything(reopened) == before
    assert [task.id for task in claim(reopened)] == ["mem-1"]
    assert (path.parent / "ledger.sqlite.damaged").read_bytes()[:100] == broken[:100]
    reopened.close()


def test_damage_that_no_call_has_met_yet_is_found_by_a_rebuild(root, path, ledger):
    file(ledger, *(f"mem-{number:03}" for number in range(200)))
    told = events(ledger)
    ledger.close()
    bare = sqlite3.connect(path)
    bare.execute("PRAGMA writable_schema = ON")
    bare.execute(
        "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = 'task_origin')"
        " WHERE name = 'task_ready'"
    )
    bare.commit()
    bare.close()
    reopened = open_ledger(root, SqliteSettings())
    assert rebuild(reopened, told) == 200
    assert [task.id for task in claim(reopened, limit=2)] == ["mem-000", "mem-001"]
    reopened.close()


def test_another_instance_does_not_go_on_with_a_damaged_file_that_was_set_aside(root, path, ledger):
    file(ledger, "mem-a")
    break_in_place(ledger, path)
    mender = open_ledger(root, SqliteSettings())
    rebuild(mender)
    file(mender, "mem-b")
    with pytest.raises(UnavailableError) as caught:
        claim(ledger)
    assert "open the memory again" in caught.value.hint
    ledger.close()
    mender.close()
    again = open_ledger(root, SqliteSettings())
    assert [task.id for task in everything(again)] == ["mem-b"]
    again.close()


def test_an_instance_that_rebuilds_after_another_has_mended_leaves_the_new_file(root, path, ledger):
    file(ledger, "mem-a")
    break_in_place(ledger, path)
    mender = open_ledger(root, SqliteSettings())
    rebuild(mender)
    file(mender, "mem-b", domain="e")
    ledger._database.start_anew()
    assert [task.id for task in everything(ledger)] == ["mem-b"]
    mender.close()


def test_a_full_disk_is_an_error_and_changes_nothing(ledger):
    file(ledger, "mem-a")
    with ledger._database.reading() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
    more = [f"mem-{number}" for number in range(1000)]
    with pytest.raises(UnavailableError, match="no room") as caught:
        file(ledger, *more)
    assert caught.value.hint
    with ledger._database.reading() as connection:
        connection.execute("PRAGMA max_page_count = 100000")
    file(ledger, "mem-z")
    filed = len(everything(ledger))
    assert [item.event.subject for item in ledger.outgoing("d")] == ["mem-a", *more[: filed - 2], "mem-z"]


@pytest.fixture
def other(tmp_path):
    (tmp_path / "other").mkdir()
    opened = open_ledger(str(tmp_path / "other"), SqliteSettings())
    yield opened
    opened.close()


def allow_pages(ledger, more):
    with ledger._database.reading() as connection:
        connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0] + more}")


def test_a_full_disk_during_apply_leaves_the_watermark_where_it_was(ledger, other):
    file(ledger, *(f"mem-{number}" for number in range(300)))
    other.watermark("d")
    allow_pages(other, 2)
    with pytest.raises(UnavailableError, match="no room"):
        other.apply("d", events(ledger), through=300)
    assert (everything(other), other.watermark("d")) == ([], 0)


def test_a_full_disk_during_a_rebuild_leaves_everything_as_it_was(ledger, other):
    file(ledger, *(f"mem-{number}" for number in range(300)))
    file(other, "mem-0")
    other.relayed("d", number=1, through=1)
    file(other, "mem-x")
    before = everything(other), other.outgoing("d")
    allow_pages(other, 2)
    with pytest.raises(UnavailableError, match="no room"):
        rebuild(other, events(ledger))
    assert (everything(other), other.outgoing("d"), other.watermark("d")) == (*before, 1)


def test_damage_that_shows_when_the_rows_are_written_is_set_aside_too(path, ledger):
    file(ledger, "mem-a", "mem-b")
    claim(ledger)
    before, told = everything(ledger), events(ledger)
    bare = sqlite3.connect(path)
    bare.execute("ALTER TABLE task RENAME COLUMN renewed TO began")
    bare.close()
    assert rebuild(ledger, told) == 2
    assert (everything(ledger), ledger.outgoing("d"), ledger.watermark("d")) == (before, [], 3)
    assert path.with_name("ledger.sqlite.damaged").exists()


def test_a_late_relayed_of_a_ledger_that_was_set_aside_moves_nothing_in_the_new_one(root, path, ledger):
    file(ledger, "mem-a")
    file(ledger, "mem-b", domain="e")
    (late,) = ledger.outgoing("e")
    break_in_place(ledger, path)
    mender = open_ledger(root, SqliteSettings())
    rebuild(mender)
    mender.relayed("e", number=late.number, through=1)
    assert (everything(mender), mender.watermark("e")) == ([], 0)
    mender.close()


def test_a_program_outside_amem_that_holds_the_file_is_named_as_such(root, path, monkeypatch):
    monkeypatch.setattr(_database, "_BUSY_SECONDS", 0.01)
    ledger = open_ledger(root, SqliteSettings())
    file(ledger, "mem-a")
    shell = sqlite3.connect(path, isolation_level=None)
    shell.execute("BEGIN IMMEDIATE")
    with pytest.raises(UnavailableError, match="outside amem") as caught:
        claim(ledger)
    assert (caught.value.retryable, bool(caught.value.hint)) == (True, True)
    assert len(everything(ledger)) == 1
    shell.execute("ROLLBACK")
    shell.close()
    assert len(claim(ledger)) == 1
    ledger.close()


@pytest.mark.parametrize("what", ["no root", "a file as state", "a directory as the ledger"])
def test_a_place_that_cannot_hold_the_ledger_is_named(tmp_path, what):
    root = tmp_path / "root"
    if what != "no root":
        root.mkdir()
    if what == "a file as state":
        (root / "state").touch()
    if what == "a directory as the ledger":
        (root / "state" / "ledger.sqlite").mkdir(parents=True)
    ledger = open_ledger(str(root), SqliteSettings())
    with pytest.raises(UnavailableError, match="root") as caught:
        ledger.watermark("d")
    assert caught.value.hint
    if what == "no root":
        assert not root.exists()
    ledger.close()


def test_a_lock_that_may_not_be_opened_is_named(root, ledger, monkeypatch):
    ledger.watermark("d")
    other = open_ledger(root, SqliteSettings())

    def refuse(*args, **kwargs):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("amem_ledger._lock.os.open", refuse)
    with pytest.raises(UnavailableError, match=r"ledger\.lock.*Permission denied"):
        other.watermark("d")
    other.close()


def test_rows_that_contradict_the_log_are_corruption(ledger, other):
    file(ledger, "mem-a")
    told = events(ledger)
    with pytest.raises(CorruptionError):
        other.apply("d", [Event("d", 1, "task.claimed", "mem-a", "owner", NOW, told[0].data, "")], through=1)


def test_what_a_power_loss_takes_comes_back_from_the_log(root, path, ledger, tmp_path):
    """The file goes back to what it was at some earlier commit, whole; the log is what it was at the loss."""
    file(ledger, *(f"mem-{number}" for number in range(6)))
    told = events(ledger)
    ledger.relayed("d", number=6, through=6)
    snapshots = []
    for step in range(4):
        copy = sqlite3.connect(tmp_path / f"lost-{step}.sqlite")
        with ledger._database.reading() as connection:
            connection.backup(copy)
        copy.close()
        snapshots.append(tmp_path / f"lost-{step}.sqlite")
        (task,) = claim(ledger)
        if step % 2:
            ledger.complete(task.id, fence=1, actor="session:one", handoff=None, now=NOW)
        fresh = [item.event for item in ledger.outgoing("d")]
        start = len(told) + 1
        told += [Event("d", seq, e.kind, e.subject, e.actor, e.time, e.data, "") for seq, e in enumerate(fresh, start)]
        if step != 2:
            ledger.relayed("d", number=ledger.outgoing("d")[-1].number, through=len(told))
    before = everything(ledger)
    ledger.close()
    for snapshot in snapshots:
        path.write_bytes(snapshot.read_bytes())
        after = open_ledger(root, SqliteSettings())
        mark = after.watermark("d")
        after.apply("d", told[mark:], through=len(told))
        assert (everything(after), after.outgoing("d"), after.watermark("d")) == (before, [], len(told))
        after.close()


def test_the_file_and_its_lock_are_private_names_in_the_root(root, ledger):
    file(ledger, "mem-a")
    found = {os.path.relpath(os.path.join(where, name), root) for where, _, names in os.walk(root) for name in names}
    assert found == {
        "state/ledger.sqlite",
        "state/ledger.sqlite-shm",
        "state/ledger.sqlite-wal",
        "state/locks/ledger.lock",
    }
