"""The backend has the methods of the port, as the port spells them."""

from __future__ import annotations

import inspect

import pytest

from amem_core.ports.log import Log, LogCapabilities


@pytest.mark.requirement("log:shape:signatures")
@pytest.mark.parametrize("name", sorted(name for name in vars(Log) if not name.startswith("_")))
def test_a_method_takes_the_ports_parameters(backend: Log, name: str) -> None:
    if name == "capabilities":
        assert isinstance(backend.capabilities, LogCapabilities)
        return
    wanted = list(inspect.signature(getattr(Log, name)).parameters.values())[1:]
    given = list(inspect.signature(getattr(backend, name)).parameters.values())
    assert [(p.name, p.kind, p.default) for p in given[: len(wanted)]] == [(p.name, p.kind, p.default) for p in wanted]
    assert all(p.default is not p.empty for p in given[len(wanted) :])
