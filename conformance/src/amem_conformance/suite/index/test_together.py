"""Many threads, many instances and many processes use one index at once."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from amem_conformance.suite.index._making import DOMAIN, EVERYTHING, ask, doc, listed, put
from amem_core.domain.labels import Label
from amem_core.domain.queries import Conditions, ReadFilter
from amem_core.errors import AmemError
from amem_core.ports.index import Index

THREADS = 8
WRITES = 60
PATIENCE = 120


@pytest.mark.requirement("index:threads:readers-beside-a-writer")
def test_eight_threads_search_beside_a_writer_and_see_what_it_acknowledged(backend: Index) -> None:
    acknowledged = [0]
    done = threading.Event()
    started = threading.Barrier(THREADS + 1)

    def read() -> int:
        started.wait()
        searches = 0
        while not done.is_set() or not searches:
            known = acknowledged[0]
            assert len(ask(backend, "walrus", limit=1000)) >= known
            assert len(listed(backend, limit=1000)) >= known
            searches += 1
        return searches

    with ThreadPoolExecutor(THREADS) as pool:
        readers = [pool.submit(read) for _ in range(THREADS)]
        started.wait()
        try:
            for number in range(WRITES):
                put(backend, doc(f"n{number:03}", "walrus"), through=number + 1)
                acknowledged[0] = number + 1
        finally:
            done.set()
        assert all(reader.result(PATIENCE) for reader in readers)
    assert len(ask(backend, "walrus", limit=1000)) == WRITES


@pytest.mark.requirement("index:threads:parallel-search")
def test_thirty_searches_in_parallel_answer_alike(backend: Index) -> None:
    put(backend, *[doc(f"n{number:03}", f"walrus {number}") for number in range(200)])
    expected = ask(backend, "walrus 17")
    with ThreadPoolExecutor(30) as pool:
        found = list(pool.map(ask, [backend] * 120, ["walrus 17"] * 120))
    assert found == [expected] * 120


@pytest.mark.requirement("index:threads:parallel-writers")
def test_writers_of_different_domains_do_not_lose_each_others_writes(
    backend: Index, second: Callable[[], Index]
) -> None:
    instances = [backend, second(), backend, second()]

    def write(number: int) -> None:
        domain = f"d{number}"
        for count in range(20):
            put(instances[number], doc(f"{domain}-{count}", "walrus", domain=domain), through=count + 1)

    with ThreadPoolExecutor(len(instances)) as pool:
        list(pool.map(write, range(len(instances))))
    readable = ReadFilter({f"d{number}": Label.restricted for number in range(4)})
    assert len(ask(backend, "walrus", readable, limit=1000)) == 80
    assert [backend.watermark(f"d{number}") for number in range(4)] == [20] * 4


@pytest.mark.requirement("index:threads:parallel-rebuilds")
def test_two_rebuilds_of_one_domain_at_once_leave_one_whole_state(backend: Index, second: Callable[[], Index]) -> None:
    instances = [backend, second()]

    def rebuild(number: int) -> int:
        documents = [doc(f"n{count:03}", "walrus") for count in range(300)]
        return instances[number].rebuild(DOMAIN, documents, through=number + 1)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(rebuild, range(2))) == [300, 300]
    assert len(listed(backend, limit=1000)) == 300
    assert len(ask(backend, "walrus", limit=1000)) == 300


@pytest.mark.requirement("index:threads:close-during-use")
def test_closing_during_searches_ends_them_with_an_answer_or_an_error(backend: Index) -> None:
    put(backend, *[doc(f"n{number:03}", "walrus") for number in range(100)])
    started = threading.Barrier(5)

    def read() -> bool:
        started.wait()
        for _ in range(10_000):
            try:
                assert len(ask(backend, "walrus", limit=200)) == 100
            except AmemError:
                return True
        return False

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(4)]
        started.wait()
        backend.close()
        assert all(reader.result(PATIENCE) for reader in readers)


@pytest.mark.requirement("index:processes:visible")
def test_another_process_sees_what_was_applied_and_applies_what_is_seen(
    backend: Index, second: Callable[[], Index]
) -> None:
    put(backend, doc("a", "walrus"), through=1)

    def other() -> None:
        index = second()
        assert ask(index, "walrus") == ["a"]
        assert ask(backend, "walrus") == ["a"]
        put(index, doc("b", "walrus"), through=2)

    _in_processes(other)
    assert ask(backend, "walrus") == ["a", "b"]
    assert backend.watermark(DOMAIN) == 2


@pytest.mark.requirement("index:processes:writers")
def test_processes_that_write_at_once_lose_nothing(backend: Index, second: Callable[[], Index]) -> None:
    def writer(domain: str) -> Callable[[], None]:
        def write() -> None:
            index = second()
            for number in range(40):
                put(index, doc(f"{domain}-{number}", "walrus", domain=domain), through=number + 1)
                own = ReadFilter({domain: Label.restricted})
                assert len(index.select(own, Conditions(), limit=100)) == number + 1

        return write

    _in_processes(*(writer(f"d{number}") for number in range(3)))
    readable = ReadFilter({f"d{number}": Label.restricted for number in range(3)})
    assert len(ask(backend, "walrus", readable, limit=1000)) == 120
    assert backend.select(EVERYTHING, Conditions()) == []


def _in_processes(*targets: Callable[[], None]) -> None:
    """Run each in a process of its own and demand that it ends well."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=target) for target in targets]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    assert codes == [0] * len(processes)
