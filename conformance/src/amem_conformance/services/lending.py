"""Services as pytest lends them: a skip that says ``unavailable``, or a failure where one is required."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, NoReturn, TypeVar

import pytest

from amem_conformance.services import private, shared
from amem_core.errors import UnavailableError

if TYPE_CHECKING:
    from amem_conformance.services import Server

Lent = TypeVar("Lent")

VARIABLE = "AMEM_REQUIRE"
"""The environment variable that stands in for ``--amem-require`` where the option is not given."""


def requires(asked: str, *names: str) -> bool:
    """Return whether ``asked``, the value of ``--amem-require``, asks for one of ``names``."""
    wanted = {name.strip() for name in asked.split(",")}
    return "all" in wanted or bool(wanted.intersection(names))


def end_as_unavailable(asked: str, reason: str, *names: str) -> NoReturn:
    """End the test that needs what is not there: failed when it is asked for, skipped otherwise."""
    reason = f"unavailable: {reason}"
    if requires(asked, *names):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def lent(config: pytest.Config, name: str) -> AbstractContextManager[Mapping[str, str]]:
    """Lend the address of the session's server: for a fixture of session scope."""
    return _lent(config, name, shared(name))


def lent_alone(config: pytest.Config, name: str) -> AbstractContextManager[Server]:
    """Lend a server that nobody else uses, to stop and to start again."""
    return _lent(config, name, private(name))


@contextmanager
def _lent(config: pytest.Config, name: str, server: AbstractContextManager[Lent]) -> Generator[Lent]:
    try:
        running = server.__enter__()
    except UnavailableError as error:
        end_as_unavailable(asked(config), f"{name}: {error} ({error.hint})", name)
    try:
        yield running
    finally:
        server.__exit__(None, None, None)


def asked(config: pytest.Config) -> str:
    """Return what the run requires: the option, else the environment, else nothing."""
    return str(config.getoption("amem_require", None) or os.environ.get(VARIABLE) or "none")
