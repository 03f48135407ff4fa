"""The backend has the methods of the port, serves any thread, and ends when it is closed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from amem_conformance.suite.ledger._making import (
    ALL,
    LEASE,
    ONE,
    OWNER,
    START,
    TWO,
    claim,
    done,
    everything,
    file,
    new,
    taken,
)
from amem_core.domain.labels import Label
from amem_core.errors import UnavailableError
from amem_core.ports.ledger import Ledger, LedgerCapabilities


@pytest.mark.requirement("ledger:shape:signatures")
@pytest.mark.parametrize("name", sorted(name for name in vars(Ledger) if not name.startswith("_")))
def test_a_method_takes_the_ports_parameters(backend: Ledger, name: str) -> None:
    if name == "capabilities":
        assert isinstance(backend.capabilities, LedgerCapabilities)
        return
    wanted = list(inspect.signature(getattr(Ledger, name)).parameters.values())[1:]
    given = list(inspect.signature(getattr(backend, name)).parameters.values())
    assert [(p.name, p.kind, p.default) for p in given[: len(wanted)]] == [(p.name, p.kind, p.default) for p in wanted]
    assert all(p.default is not p.empty for p in given[len(wanted) :])


@pytest.mark.requirement("ledger:threads:foreign")
def test_an_instance_serves_threads_that_did_not_open_it(backend: Ledger) -> None:
    for _ in range(3):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(file, backend, new("mem-a")).result()
            assert pool.submit(everything, backend).result() == everything(backend)


@pytest.mark.requirement("ledger:instances:shared")
def test_a_second_instance_sees_each_change_at_once(backend: Ledger, second: Callable[[], Ledger]) -> None:
    other = second()
    file(backend, new("mem-a"))
    held = taken(other)
    assert claim(backend, TWO) is None
    assert everything(backend) == [held]
    done(backend, held)
    assert everything(other) == everything(backend)
    assert other.outgoing("d") == backend.outgoing("d")
    other.relayed("d", number=other.outgoing("d")[-1].number, through=3)
    assert (backend.outgoing("d"), backend.watermark("d")) == ([], 3)


@pytest.mark.requirement("ledger:close:idempotent")
def test_a_closed_ledger_is_unavailable_and_closing_again_changes_nothing(
    backend: Ledger, reopen: Callable[[], Ledger]
) -> None:
    file(backend, new("mem-a"))
    backend.close()
    backend.close()
    calls: list[Callable[[], object]] = [
        lambda: backend.file(new("mem-b"), actor=OWNER, now=START),
        lambda: backend.claim_next(ALL, holder=ONE, lease=LEASE, now=START),
        lambda: backend.claim("mem-a", holder=ONE, lease=LEASE, now=START),
        lambda: backend.heartbeat("mem-a", fence=1, lease=LEASE, now=START),
        lambda: backend.complete("mem-a", fence=1, actor=ONE, handoff=None, now=START),
        lambda: backend.release("mem-a", fence=1, actor=ONE, handoff=None, now=START),
        lambda: backend.relabel("mem-a", label=Label.public, actor=ONE, now=START),
        lambda: backend.get("mem-a", now=START),
        lambda: backend.tasks(ALL, now=START),
        lambda: backend.outgoing("d"),
        lambda: backend.relayed("d", number=1, through=1),
        lambda: backend.watermark("d"),
        lambda: backend.apply("d", [], through=1),
        lambda: backend.rebuild("d", [], through=0),
    ]
    for call in calls:
        with pytest.raises(UnavailableError) as caught:
            call()
        assert caught.value.hint
    assert [task.id for task in everything(reopen())] == ["mem-a"]


@pytest.mark.requirement("ledger:close:idempotent")
def test_closing_while_threads_use_it_ends_them_with_an_answer_or_an_error(backend: Ledger) -> None:
    file(backend, *(new(f"mem-{number}") for number in range(50)))

    def work(number: int) -> int:
        answers = 0
        try:
            while claim(backend, f"session:{number}") is not None and everything(backend):
                answers += 1
        except UnavailableError:
            return answers
        return answers

    with ThreadPoolExecutor(8) as pool:
        workers = [pool.submit(work, number) for number in range(8)]
        backend.close()
        assert all(worker.result() >= 0 for worker in workers)
