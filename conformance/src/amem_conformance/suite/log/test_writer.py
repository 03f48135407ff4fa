"""One writer for each domain, across threads, instances and processes; who dies leaves a whole log."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from amem_conformance.suite.log._making import append, new, subjects
from amem_core.errors import AmemError, UnavailableError
from amem_core.ports.log import Log

THREADS = 8


def _refuses(log: Log, domain: str, wait: float = 0) -> bool:
    """Return whether nobody can become the writer now."""
    try:
        with log.writer(domain, wait=wait):
            return False
    except UnavailableError:
        return True


@pytest.mark.requirement("log:writer:exclusive")
def test_there_is_no_second_writer_while_the_first_lasts(backend: Log, second: Callable[[], Log]) -> None:
    other = second()
    with backend.writer("d") as writer:
        writer.append([new(1)])
        assert _refuses(backend, "d")
        assert _refuses(other, "d")
        assert _refuses(other, "d", wait=0.05)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(_refuses, backend, "d").result()
            assert pool.submit(_refuses, other, "d").result()
        assert not _refuses(other, "e")
        assert not _refuses(backend, "e")
    assert not _refuses(backend, "d")
    assert not _refuses(other, "d")


@pytest.mark.requirement("log:writer:waits")
def test_a_writer_waits_for_the_one_before_it(backend: Log, second: Callable[[], Log]) -> None:
    for other in (backend, second()):
        started = threading.Event()

        def follow(log: Log = other, started: threading.Event = started) -> int:
            started.set()
            with log.writer("d", wait=30) as writer:
                return writer.append([new(0)])[0].seq

        with ThreadPoolExecutor(1) as pool:
            with backend.writer("d") as writer:
                later = pool.submit(follow)
                started.wait()
                seq = writer.append([new(1)])[0].seq
            assert later.result() == seq + 1


@pytest.mark.requirement("log:writer:fails")
def test_a_writer_whose_work_fails_keeps_what_it_appended_and_lets_go(backend: Log, second: Callable[[], Log]) -> None:
    def fail() -> None:
        with backend.writer("d") as writer:
            writer.append([new(1)])
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert append(second(), "d", new(2))[0].seq == 2
    assert subjects(backend, "d") == ["mem-1", "mem-2"]


@pytest.mark.requirement("log:writer:ended")
def test_a_writer_that_has_ended_appends_nothing(backend: Log) -> None:
    with backend.writer("d") as writer:
        writer.append([new(1)])
    with pytest.raises(AmemError):
        writer.append([new(2)])
    assert backend.head("d") == 1


@pytest.mark.requirement("log:threads:writers")
def test_eight_threads_lose_no_event_and_keep_their_own_order(backend: Log, second: Callable[[], Log]) -> None:
    logs = [backend, second()]

    def work(number: int) -> None:
        for each in range(25):
            append(logs[number % 2], "d", new(each, subject=f"mem-{number}-{each}"))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    events = list(backend.read("d"))
    assert [event.seq for event in events] == list(range(1, THREADS * 25 + 1))
    for number in range(THREADS):
        mine = [event.subject for event in events if event.subject.startswith(f"mem-{number}-")]
        assert mine == [f"mem-{number}-{each}" for each in range(25)]


@pytest.mark.requirement("log:threads:readers")
def test_readers_beside_a_writer_see_whole_groups_in_order(backend: Log) -> None:
    done = threading.Event()

    def look() -> int:
        looked = 0
        while not done.is_set() or not looked:
            head = backend.head("d")
            seen = [event.seq for event in backend.read("d")]
            assert seen == list(range(1, len(seen) + 1))
            assert len(seen) >= head
            assert len(seen) % 5 == 0
            looked += 1
        return looked

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(look) for _ in range(4)]
        try:
            for start in range(0, 100, 5):
                with backend.writer("d") as writer:
                    writer.append([new(start + n) for n in range(5)])
        finally:
            done.set()
        assert all(reader.result() for reader in readers)
    assert backend.head("d") == 100


def _start(work: Callable[[], None]) -> multiprocessing.Process:
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    return process  # type: ignore[return-value]  # A fork's process is one in all but its type.


@pytest.mark.requirement("log:process:writers")
def test_two_processes_that_append_at_once_lose_no_event(backend: Log, second: Callable[[], Log]) -> None:
    def worker(number: int) -> Callable[[], None]:
        def work() -> None:
            log = second()
            for each in range(200):
                append(log, "d", new(each, subject=f"mem-{number}-{each}"))

        return work

    workers = [_start(worker(number)) for number in range(2)]
    for process in workers:
        process.join(120)
    assert [process.exitcode for process in workers] == [0, 0]
    events = list(backend.read("d"))
    assert [event.seq for event in events] == list(range(1, 401))
    for number in range(2):
        mine = [event.subject for event in events if event.subject.startswith(f"mem-{number}-")]
        assert mine == [f"mem-{number}-{each}" for each in range(200)]
    assert append(backend, "d", new(401))[0].seq == 401


@pytest.mark.requirement("log:process:exclusive")
def test_the_writer_of_a_process_that_dies_is_free_again(backend: Log, second: Callable[[], Log]) -> None:
    reading, writing = os.pipe()

    def work() -> None:
        with second().writer("d") as writer:
            writer.append([new(1)])
            os.write(writing, b".")
            signal.pause()

    process = _start(work)
    try:
        os.close(writing)
        assert os.read(reading, 1) == b"."
        assert _refuses(backend, "d")
    finally:
        os.close(reading)
        process.kill()
        process.join(60)
    assert append(backend, "d", new(2))[0].seq == 2


@pytest.mark.requirement("log:process:killed")
@pytest.mark.parametrize("size", [1, 3, 200])
def test_a_writer_that_is_killed_loses_no_acknowledged_event_and_leaves_no_half_group(
    backend: Log, second: Callable[[], Log], reopen: Callable[[], Log], size: int
) -> None:
    reading, writing = os.pipe()

    def work() -> None:
        with second().writer("d") as writer:
            for start in range(1, 1_000_000, size):
                writer.append([new(start + n) for n in range(size)])
                os.write(writing, b".")

    append(backend, "e", new(1))
    process = _start(work)
    os.close(writing)
    seen = 0
    while seen < 10:
        seen += len(os.read(reading, 1))
    process.kill()
    process.join(60)
    while rest := len(os.read(reading, 4096)):
        seen += rest
    os.close(reading)
    log = reopen()
    with log.writer("d", wait=5) as writer:
        head = writer.head
        assert head in {seen * size, (seen + 1) * size}
        assert writer.append([new(head + 1)])[0].seq == head + 1
    assert subjects(log, "d") == [f"mem-{n}" for n in range(1, head + 2)]
