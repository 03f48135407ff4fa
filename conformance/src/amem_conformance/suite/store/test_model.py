"""Whatever is done in whatever order, the backend answers as the reference adapter does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from amem_conformance.suite.store._making import digest, ids, text
from amem_core.errors import AmemError, ConflictError, NotFoundError
from amem_core.ports.store import MarkKind, NewVersion, Store
from amem_core.reference.store import MemoryStore, open_store

Replaces = Literal["nothing", "current", "other"]

DOMAINS = st.sampled_from(["d", "d-e"])
IDS = st.sampled_from(["mem-a", "mem-a-b", "mem-ab"])
NUMBERS = st.integers(1, 5)
BODIES = st.sampled_from(["one", "two"])
REPLACES: st.SearchStrategy[Replaces] = st.sampled_from(["nothing", "current", "current", "other"])

MARK_KINDS: tuple[MarkKind, ...] = ("erasures", "promotions")

_sites = iter(range(1 << 62))


class StoreMachine(RuleBasedStateMachine):
    """Does the same to both and compares every answer."""

    fresh: Callable[[], AbstractContextManager[Store]]

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self.tested = self._stack.enter_context(self.fresh())
        self.model: MemoryStore = open_store(f"model {next(_sites)}")

    def teardown(self) -> None:
        self._stack.close()

    def same(self, call: Callable[[Store], object]) -> None:
        """Check that the backend answers as the model does."""
        assert _answer(call, self.tested) == _answer(call, self.model)

    def version(self, domain: str, id: str, number: int, body: str, replaces: Replaces) -> NewVersion:
        """Return a version as a caller would make it who read the entry before."""
        data = text(id, number, body)
        current = _answer(lambda store: store.read(domain, id), self.model)
        known = digest(current) if isinstance(current, bytes) else None
        wanted = {"nothing": None, "current": known, "other": digest(b"other")}[replaces]
        return NewVersion(id, number, data, digest(data), wanted)

    @rule(domain=DOMAINS, id=IDS, number=NUMBERS, body=BODIES)
    def stage(self, domain: str, id: str, number: int, body: str) -> None:
        version = self.version(domain, id, number, body, "nothing")
        self.same(lambda store: store.stage(domain, [version]))

    @rule(domain=DOMAINS, id=IDS, number=NUMBERS, body=BODIES, replaces=REPLACES)
    def publish(self, domain: str, id: str, number: int, body: str, replaces: Replaces) -> None:
        version = self.version(domain, id, number, body, replaces)
        self.same(lambda store: store.publish(domain, [version]))

    @rule(domain=DOMAINS, id=IDS, number=NUMBERS, body=BODIES, replaces=REPLACES)
    def write(self, domain: str, id: str, number: int, body: str, replaces: Replaces) -> None:
        version = self.version(domain, id, number, body, replaces)
        self.same(lambda store: store.stage(domain, [version]))
        self.same(lambda store: store.publish(domain, [version]))

    @rule(domain=DOMAINS, id=IDS, number=NUMBERS)
    def discard(self, domain: str, id: str, number: int) -> None:
        self.same(lambda store: store.discard(domain, id, number))

    @rule(domain=DOMAINS, id=IDS)
    def erase(self, domain: str, id: str) -> None:
        self.same(lambda store: store.erase(domain, id, text(id, 6, "erased"), 6))

    @rule(domain=DOMAINS, kind=st.sampled_from(MARK_KINDS), id=IDS, body=BODIES)
    def save_mark(self, domain: str, kind: MarkKind, id: str, body: str) -> None:
        self.same(lambda store: store.save_mark(domain, kind, id, body.encode()))

    @invariant()
    def answers_are_the_same(self) -> None:
        assert _everything(self.tested) == _everything(self.model)


def _everything(store: Store) -> object:
    """Return all that a caller can learn from the store."""
    return store.domains(), [
        (
            ids(store, domain),
            store.staged(domain),
            [list(store.marks(domain, kind)) for kind in MARK_KINDS],
            [_entry(store, domain, id) for id in ("mem-a", "mem-a-b", "mem-ab")],
        )
        for domain in ("d", "d-e")
    ]


def _entry(store: Store, domain: str, id: str) -> object:
    numbers = store.earlier_versions(domain, id)
    current = _answer(lambda store: store.read(domain, id), store)
    return current, numbers, [_answer(_reader(domain, id, number), store) for number in range(8)]


def _reader(domain: str, id: str, number: int) -> Callable[[Store], object]:
    return lambda store: store.read(domain, id, number)


def _answer(call: Callable[[Store], object], store: Store) -> object:
    """Return the answer, or the kind of the refusal: where two rules refuse, either may be named."""
    try:
        return call(store)
    except (ConflictError, NotFoundError):
        return "refused"
    except AmemError as error:
        return type(error)


@pytest.mark.requirement("store:model:reference")
def test_the_backend_answers_as_the_reference_does(fresh: Callable[[], AbstractContextManager[Store]]) -> None:
    machine = type("Machine", (StoreMachine,), {"fresh": staticmethod(fresh)})
    run_state_machine_as_test(machine, settings=settings(max_examples=40, stateful_step_count=25, deadline=None))
