"""Whatever is done in whatever order, the backend answers as the reference adapter does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from amem_conformance.suite.ledger._making import ALL, LEASE, START, Book, new
from amem_core.domain.labels import Label
from amem_core.domain.queries import ReadFilter
from amem_core.domain.tasks import TaskStatus
from amem_core.errors import AmemError
from amem_core.ports.ledger import Ledger
from amem_core.reference.ledger import open_ledger

IDS = st.sampled_from([f"mem-{number}" for number in range(5)])
DOMAINS = st.sampled_from(["d", "e"])
LABELS = st.sampled_from(list(Label))
HOLDERS = st.sampled_from(["session:one", "session:two"])
FENCES = st.integers(0, 4)
HANDOFFS = st.sampled_from([None, "mem-h"])
READABLE = st.dictionaries(DOMAINS, LABELS).map(ReadFilter)
LEASES = st.sampled_from([timedelta(seconds=3), LEASE])
STEPS = st.sampled_from([0.000001, 1, 4, 60, 600, 3600, -1, -6, -600, -3600])

_sites = iter(range(1 << 62))


class LedgerMachine(RuleBasedStateMachine):
    """Does the same to both and compares every answer."""

    fresh: Callable[[], AbstractContextManager[Ledger]]

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self.tested = self._stack.enter_context(self.fresh())
        self.model = open_ledger(f"model {next(_sites)}", None)
        self.books = {"d": Book("d"), "e": Book("e")}
        self.now = START

    def teardown(self) -> None:
        self._stack.close()

    def both(self, call: Callable[[Ledger], object]) -> None:
        """Make the call of both; the answers or the errors are the same."""
        assert _answer(self.tested, call) == _answer(self.model, call)

    @rule(id=IDS, domain=DOMAINS, label=LABELS, priority=st.integers(0, 2), filing=st.integers(0, 4))
    def file(self, id: str, domain: str, label: Label, priority: int, filing: int) -> None:
        origin, event = [(None, None), ("o", None), (None, "1"), ("o", "1"), ("o", "2")][filing]
        task = new(id, domain, label=label, priority=priority, origin=origin, event=event)
        self.both(lambda ledger: ledger.file(task, actor="owner", now=self.now))

    @rule(readable=READABLE, holder=HOLDERS, lease=LEASES, limit=st.integers(1, 3))
    def claim_next(self, readable: ReadFilter, holder: str, lease: timedelta, limit: int) -> None:
        self.both(lambda ledger: ledger.claim_next(readable, holder=holder, lease=lease, now=self.now, limit=limit))

    @rule(id=IDS, holder=HOLDERS, lease=LEASES)
    def claim(self, id: str, holder: str, lease: timedelta) -> None:
        self.both(lambda ledger: ledger.claim(id, holder=holder, lease=lease, now=self.now))

    @rule(id=IDS, fence=FENCES, lease=LEASES)
    def heartbeat(self, id: str, fence: int, lease: timedelta) -> None:
        self.both(lambda ledger: ledger.heartbeat(id, fence=fence, lease=lease, now=self.now))

    @rule(id=IDS, fence=FENCES, actor=HOLDERS, handoff=HANDOFFS)
    def complete(self, id: str, fence: int, actor: str, handoff: str | None) -> None:
        self.both(lambda ledger: ledger.complete(id, fence=fence, actor=actor, handoff=handoff, now=self.now))

    @rule(id=IDS, fence=FENCES, actor=HOLDERS, handoff=HANDOFFS)
    def release(self, id: str, fence: int, actor: str, handoff: str | None) -> None:
        self.both(lambda ledger: ledger.release(id, fence=fence, actor=actor, handoff=handoff, now=self.now))

    @rule(id=IDS, label=LABELS)
    def relabel(self, id: str, label: Label) -> None:
        self.both(lambda ledger: ledger.relabel(id, label=label, actor="owner", now=self.now))

    @rule(seconds=STEPS)
    def move_the_clock(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(domain=DOMAINS, crash=st.booleans())
    def carry(self, domain: str, crash: bool) -> None:  # noqa: FBT001  (hypothesis draws it)
        book = self.books[domain]
        book.follow(self.model)
        sent = book.carry(self.tested, crash=crash)
        if not crash:
            book.follow(self.model)
        assert crash or self.model.outgoing(domain) == []
        assert len({(event.subject, event.data["revision"]) for event in sent}) == len(sent)

    @rule(domain=DOMAINS)
    def rebuild(self, domain: str) -> None:
        """What the log does not hold yet is still in the outbox: nothing changes."""
        before = self.tested.tasks(ALL, now=self.now)
        self.both(self.books[domain].rebuild)
        assert self.tested.tasks(ALL, now=self.now) == before

    @rule(readable=READABLE, statuses=st.sets(st.sampled_from(TaskStatus)), origin=st.sampled_from([None, "o"]))
    def listing(self, readable: ReadFilter, statuses: set[TaskStatus], origin: str | None) -> None:
        self.both(
            lambda ledger: ledger.tasks(readable, now=self.now, statuses=sorted(statuses), origin=origin, limit=3)
        )

    @invariant()
    def the_tasks_are_the_same(self) -> None:
        self.both(lambda ledger: ledger.tasks(ALL, now=self.now))

    @invariant()
    def the_outboxes_are_the_same(self) -> None:
        for domain in ("d", "e"):
            assert _waiting(self.tested, domain) == _waiting(self.model, domain)


def _waiting(ledger: Ledger, domain: str) -> list[tuple[str, int, str]]:
    """Return what is in the outbox; one claim of many tasks may tell of them in any order."""
    return sorted(
        (event.subject, event.data["revision"], repr((event.kind, event.actor, event.time, dict(event.data))))
        for event in (item.event for item in ledger.outgoing(domain))
    )


def _answer(ledger: Ledger, call: Callable[[Ledger], object]) -> object:
    try:
        return call(ledger)
    except AmemError as error:
        return type(error)


@pytest.mark.requirement("ledger:model:reference")
def test_the_backend_answers_as_the_reference_does(fresh: Callable[[], AbstractContextManager[Ledger]]) -> None:
    machine = type("Machine", (LedgerMachine,), {"fresh": staticmethod(fresh)})
    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=40, deadline=None))
