"""Whatever is done in whatever order, the backend answers as the reference adapter does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from amem_conformance.suite.log._making import START
from amem_core.domain.events import NewEvent
from amem_core.ports.log import Log
from amem_core.reference.log import MemoryLog, open_log

DOMAINS = st.sampled_from(["d", "d-e"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
EVENTS = st.builds(
    NewEvent,
    kind=st.sampled_from(["entry.written", "task.claimed"]),
    subject=st.text(max_size=30),
    actor=st.just("owner"),
    time=st.just(START),
    data=st.dictionaries(st.text(max_size=10), VALUES, max_size=3),
)

_sites = iter(range(1 << 62))


class LogMachine(RuleBasedStateMachine):
    """Does the same to both and compares every answer."""

    fresh: Callable[[], AbstractContextManager[Log]]

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self.tested = self._stack.enter_context(self.fresh())
        self.model: MemoryLog = open_log(f"model {next(_sites)}")

    def teardown(self) -> None:
        self._stack.close()

    @rule(domain=DOMAINS, groups=st.lists(st.lists(EVENTS, max_size=4), max_size=3))
    def append(self, domain: str, groups: list[list[NewEvent]]) -> None:
        with self.tested.writer(domain) as tested, self.model.writer(domain) as model:
            for group in groups:
                assert tested.append(group) == model.append(group)
                assert tested.head == model.head

    @rule(domain=DOMAINS, after=st.integers(0, 20))
    def read(self, domain: str, after: int) -> None:
        assert list(self.tested.read(domain, after)) == list(self.model.read(domain, after))

    @invariant()
    def answers_are_the_same(self) -> None:
        assert self.tested.domains() == self.model.domains()
        for domain in ("d", "d-e"):
            assert self.tested.head(domain) == self.model.head(domain)
            assert list(self.tested.read(domain)) == list(self.model.read(domain))


@pytest.mark.requirement("log:model:reference")
def test_the_backend_answers_as_the_reference_does(fresh: Callable[[], AbstractContextManager[Log]]) -> None:
    machine = type("Machine", (LogMachine,), {"fresh": staticmethod(fresh)})
    run_state_machine_as_test(machine, settings=settings(max_examples=30, stateful_step_count=15, deadline=None))
