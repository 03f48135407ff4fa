"""Turns: who writes, who waits, and what becomes of those who die, fork, or are closed meanwhile."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from amem_core.domain.events import Event
from amem_core.domain.labels import Label
from amem_core.domain.queries import ReadFilter
from amem_core.domain.tasks import NewTask
from amem_core.errors import ConfigError, UnavailableError
from amem_ledger._lock import FileLock
from amem_ledger.config import SqliteSettings
from amem_ledger.sqlite import _present, open_ledger
from amem_ledger.testing import harness

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(minutes=10)
ALL = ReadFilter({"d": Label.restricted})


@pytest.fixture
def ledger(tmp_path):
    opened = open_ledger(str(tmp_path), SqliteSettings())
    yield opened
    opened.close()


def file(ledger, *ids):
    for id in ids:
        ledger.file(NewTask(id=id, domain="d", label=Label.internal), actor="owner", now=NOW)


def claim(ledger, holder="session:one"):
    return ledger.claim_next(ALL, holder=holder, lease=LEASE, now=NOW)


def open_files(name):
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:
            continue
    return [path for path in found if name in path]


def test_a_free_lock_is_taken_without_waiting(tmp_path):
    lock = FileLock(str(tmp_path / "lock"), 1)
    assert [(lock.acquire(), lock.release()) for _ in range(3)] == [(0.0, None)] * 3
    lock.close()


def test_a_lock_that_is_not_free_in_time_is_named_and_can_be_had_later(tmp_path):
    path = str(tmp_path / "lock")
    first, second = FileLock(path, 1), FileLock(path, 0.05)
    first.acquire()
    for _ in range(2):
        with pytest.raises(UnavailableError, match=r"lock.*0\.05 s") as caught:
            second.acquire()
        assert caught.value.hint
    first.release()
    waited = FileLock(path, 30)
    assert waited.acquire() >= 0
    waited.release()
    patient = FileLock(path, 30)
    patient.acquire()
    patient.release()
    for lock in (first, second, waited, patient):
        lock.close()


def test_a_thread_waits_for_another_of_the_same_instance(tmp_path):
    lock = FileLock(str(tmp_path / "lock"), 0.05)
    lock.acquire()
    with ThreadPoolExecutor(1) as pool, pytest.raises(UnavailableError):
        pool.submit(lock.acquire).result()
    lock.release()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: (lock.acquire(), lock.release())).result()
    lock.close()


def test_whoever_stands_in_line_gets_in_when_the_holder_leaves(tmp_path):
    path = str(tmp_path / "lock")
    first = FileLock(path, 30)
    first.acquire()
    begun = threading.Barrier(5)
    inside = []

    def work(number):
        lock = FileLock(path, 30)
        begun.wait()
        waited = lock.acquire()
        inside.append(number)
        alone = len(inside)
        ours = inside[-1] == number and len(inside) == alone
        lock.release()
        lock.close()
        return waited > 0, ours

    with ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(work, number) for number in range(4)]
        begun.wait()
        first.release()
        assert all(worker.result()[1] for worker in workers)
    assert sorted(inside) == [0, 1, 2, 3]
    first.close()


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    path = str(tmp_path / "lock")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        FileLock(path, 1).acquire()
        os.write(writing, b".")
        signal.pause()
    os.read(reading, 1)
    lock = FileLock(path, 30)
    with pytest.raises(UnavailableError):
        FileLock(path, 0.01).acquire()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert lock.acquire() >= 0
    lock.release()
    lock.close()
    os.close(reading)
    os.close(writing)


def test_a_change_waits_for_its_turn_and_says_when_it_did_not_come(tmp_path):
    ledger = open_ledger(str(tmp_path), SqliteSettings(wait=0.05))
    file(ledger, "mem-a")
    other = os.open(tmp_path / "state" / "locks" / "ledger.lock", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(UnavailableError, match=r"ledger\.lock") as caught:
        claim(ledger)
    assert (caught.value.retryable, ledger.get("mem-a", now=NOW).fence) == (True, 0)
    os.close(other)
    assert claim(ledger)[0].fence == 1
    ledger.close()


def test_a_long_wait_moves_the_callers_time_on():
    class Turn:
        waited = 90.0

    later = NOW + timedelta(seconds=90)
    assert _present(NOW, NOW + LEASE, Turn()) == (later, "2026-01-01T12:11:30.000000Z")
    Turn.waited = 0.5
    assert _present(NOW, NOW + LEASE, Turn()) == (NOW, "2026-01-01T12:10:00.000000Z")


def test_a_forked_process_is_told_to_open_its_own(tmp_path, ledger):
    file(ledger, "mem-a")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            claim(ledger)
        except UnavailableError as error:
            os.write(writing, str(error).encode())
        ledger.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert b"forked" in os.read(reading, 1000)
    assert claim(ledger)[0].id == "mem-a"
    os.close(reading)
    os.close(writing)


def test_a_process_that_is_killed_at_work_leaves_a_ledger_that_its_events_make_again(tmp_path, ledger):
    file(ledger, *(f"mem-{number:04}" for number in range(2000)))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        mine = open_ledger(str(tmp_path), SqliteSettings())
        while True:
            (task,) = claim(mine, "session:child")
            os.write(writing, b".")
            mine.complete(task.id, fence=1, actor="session:child", handoff=None, now=NOW)
    seen = 0
    while seen < 100:
        seen += len(os.read(reading, 100))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(writing)
    while rest := len(os.read(reading, 4096)):
        seen += rest
    os.close(reading)
    held = [task for task in ledger.tasks(ALL, now=NOW, limit=2000) if task.fence]
    assert len(held) in {seen, seen + 1}
    before = ledger.tasks(ALL, now=NOW, limit=2000)
    told = [item.event for item in ledger.outgoing("d", limit=10_000)]
    ledger.rebuild(
        "d",
        [Event("d", seq, e.kind, e.subject, e.actor, e.time, e.data, "") for seq, e in enumerate(told, 1)],
        through=len(told),
    )
    assert ledger.tasks(ALL, now=NOW, limit=2000) == before
    assert claim(ledger)[0].id == f"mem-{len(held):04}"


def test_threads_that_end_leave_no_connection_and_closing_leaves_no_file_open(tmp_path, ledger):
    file(ledger, "mem-a")
    # SQLite keeps a file's descriptor for the next connection; there are as many as threads at once.
    most = len(open_files(str(tmp_path))) + 4
    for _ in range(5):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: ledger.get("mem-a", now=NOW), range(20)))
    assert len(open_files(str(tmp_path))) <= most
    ledger.close()
    assert open_files(str(tmp_path)) == []


@pytest.mark.parametrize("given", [{"synchronous": "off"}, {"wait": 0}, {"wait": -1}, {"wait": float("nan")}])
def test_settings_that_would_break_a_promise_are_refused(given):
    with pytest.raises(ConfigError, match=r"ledger\.sqlite") as caught:
        SqliteSettings(**given)
    assert caught.value.hint


def test_the_harness_gives_sites_apart_and_the_bytes_behind_them(tmp_path):
    with harness.start(tmp_path):
        first, second = harness.fresh(), harness.fresh()
        assert first.root != second.root
        ledger = open_ledger(first.root, SqliteSettings(**first.settings))
        file(ledger, "mem-a")
        ledger.close()
        assert "state/ledger.sqlite" in dict(harness.raw(first).blobs())
        assert list(harness.raw(second).blobs()) == []
        harness.raw(second).write("state/ledger.sqlite", dict(harness.raw(first).blobs())["state/ledger.sqlite"])
        copied = open_ledger(second.root, SqliteSettings())
        assert copied.get("mem-a", now=NOW).id == "mem-a"
        copied.close()
