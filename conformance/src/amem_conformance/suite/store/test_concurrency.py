"""Threads and processes: nobody sees half a version, and whoever dies leaves what the next one completes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from amem_conformance.suite.store._making import chain, digest, ids, new, write
from amem_core.ports.store import NewVersion, Store, Stored

THREADS = 8
ROUNDS = 12


@pytest.mark.requirement("store:threads:foreign")
def test_an_instance_serves_a_thread_that_did_not_open_it(backend: Store) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(write, backend, "d", new("mem-a")).result()
        assert pool.submit(backend.read, "d", "mem-a").result() == backend.read("d", "mem-a")


@pytest.mark.requirement("store:threads:writers")
def test_eight_threads_that_write_eight_domains_lose_nothing(backend: Store) -> None:
    def work(number: int) -> None:
        for each in range(ROUNDS):
            write(backend, f"d{number}", *chain(f"mem-{each}", 1, 2))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    assert backend.domains() == [f"d{n}" for n in range(THREADS)]
    for number in range(THREADS):
        assert len(ids(backend, f"d{number}")) == ROUNDS
        assert all(backend.earlier_versions(f"d{number}", f"mem-{each}") == [1] for each in range(ROUNDS))


@pytest.mark.requirement("store:threads:readers")
def test_readers_beside_a_writer_see_whole_versions_and_complete_listings(backend: Store) -> None:
    made = chain("mem-m", *range(1, 60))
    known = {v.digest for v in made}
    write(backend, "d", made[0], new("mem-a"), new("mem-z"))
    done = threading.Event()

    def look() -> int:
        looked = 0
        while not done.is_set() or not looked:
            assert digest(backend.read("d", "mem-m")) in known
            assert ids(backend, "d") == ["mem-a", "mem-m", "mem-z"]
            assert all(isinstance(each, Stored) for each in backend.entries("d"))
            numbers = backend.earlier_versions("d", "mem-m")
            assert numbers == list(range(1, len(numbers) + 1))
            looked += 1
        return looked

    with ThreadPoolExecutor(THREADS) as pool:
        readers = [pool.submit(look) for _ in range(THREADS)]
        try:
            write(backend, "d", *made[1:])
        finally:
            done.set()
        assert all(reader.result() for reader in readers)
    assert backend.earlier_versions("d", "mem-m") == list(range(1, 59))


@pytest.mark.requirement("store:close:idempotent")
def test_closing_twice_is_closing_once(backend: Store) -> None:
    write(backend, "d", new("mem-a"))
    backend.close()
    backend.close()


def _run(work: Callable[[], None]) -> int | None:
    """Run ``work`` in a process of its own; return its exit code."""
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(60)
    return process.exitcode


@pytest.mark.requirement("store:process:visible")
def test_what_another_process_writes_is_read_here_at_once(backend: Store, second: Callable[[], Store]) -> None:
    made = chain("mem-a", 1, 2, 3)
    write(backend, "d", made[0])

    def work() -> None:
        write(second(), "d", made[1], new("mem-b"))

    assert _run(work) == 0
    assert backend.read("d", "mem-a") == made[1].data
    assert ids(backend, "d") == ["mem-a", "mem-b"]
    write(backend, "d", made[2])
    assert backend.earlier_versions("d", "mem-a") == [1, 2]


@pytest.mark.requirement("store:process:killed")
@pytest.mark.parametrize("acknowledged", [1, 7, 20])
def test_a_writer_that_is_killed_leaves_what_the_next_one_completes(
    backend: Store, second: Callable[[], Store], acknowledged: int
) -> None:
    made = chain("mem-m", *range(1, 2001))
    reading, writing = os.pipe()

    def work() -> None:
        store = second()
        for version in made:
            store.stage("d", [version])
            store.publish("d", [version])
            os.write(writing, b".")

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    os.close(writing)
    seen = 0
    while seen < acknowledged:
        seen += len(os.read(reading, 1))
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join(60)
    while rest := len(os.read(reading, 4096)):
        seen += rest
    os.close(reading)
    _complete(backend, made, seen)


def _complete(store: Store, made: list[NewVersion], acknowledged: int) -> None:
    """Check that what was acknowledged is there, and carry on where the dead writer stopped."""
    current = digest(store.read("d", "mem-m"))
    at = next(v.version for v in made if v.digest == current)
    assert at in {acknowledged, acknowledged + 1}
    assert store.earlier_versions("d", "mem-m") == list(range(1, at))
    store.stage("d", made[at - 1 : at + 1])
    store.publish("d", made[at - 1 : at + 1])
    assert store.read("d", "mem-m") == made[at].data
    assert [store.read("d", "mem-m", n) for n in range(1, at + 1)] == [v.data for v in made[:at]]
    assert store.staged("d") == []
