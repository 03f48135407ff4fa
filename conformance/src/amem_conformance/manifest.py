"""What the suite demands, as data: a promise that no requirement names does not exist."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

PORTS: Final = ("store", "index", "ledger", "log", "policy", "tools")

_ID = re.compile(r"(?P<port>[a-z]+):[a-z0-9-]+(?::[a-z0-9-]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One sentence that is true or false of a backend.

    Attributes:
        id: ``<port>:<feature>`` and, mostly, ``:<variant>``; stable, since reports and notes cite it.
        source: where the promise is made, such as ``contract 5: Store 1`` or ``case: torn-log``.
        behaviour: the sentence.
        needs: names of capability flags; a backend that lacks one is reported ``unsupported``.
        added_in: the version of the port's API that brought it, as (major, minor).
    """

    id: str
    source: str
    behaviour: str
    needs: frozenset[str] = frozenset()
    added_in: tuple[int, int] = (1, 0)

    @property
    def port(self) -> str:
        """The port that the requirement is about."""
        return self.id.partition(":")[0]


def requirements(port: str) -> tuple[Requirement, ...]:
    """Return what is demanded of a backend of ``port``, in the order in which it is declared.

    Raises:
        ValueError: the port is unknown, or its list breaks a rule (an id twice, another port's id).
    """
    if port not in PORTS:
        message = f"{port!r} is no port; one of: {', '.join(PORTS)}"
        raise ValueError(message)
    module = importlib.import_module(f"amem_conformance.requirements.{port}")
    declared: tuple[Requirement, ...] = tuple(module.REQUIREMENTS)
    faults = list(faults_of(port, declared))
    if faults:
        message = f"amem_conformance.requirements.{port}: " + "; ".join(faults)
        raise ValueError(message)
    return declared


def faults_of(port: str, declared: Iterable[Requirement]) -> Iterable[str]:
    """Yield, as sentences, which rules of the manifest a port's list breaks."""
    seen: set[str] = set()
    for requirement in declared:
        found = _ID.fullmatch(requirement.id)
        if not found or found["port"] != port:
            yield f"{requirement.id!r} is not of the form {port}:<feature>:<variant>"
        if requirement.id in seen:
            yield f"{requirement.id!r} is declared twice"
        if not requirement.source.strip() or not requirement.behaviour.strip():
            yield f"{requirement.id!r} names no source or no behaviour"
        seen.add(requirement.id)
