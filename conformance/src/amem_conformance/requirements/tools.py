"""What is demanded of the Tools port."""

from __future__ import annotations

from amem_conformance.manifest import Requirement

_PORT = "port: Tools"

REQUIREMENTS: list[Requirement] = [
    Requirement(id="tools:names:sorted", source=_PORT, behaviour="names lists every tool that can be called, sorted"),
    Requirement(
        id="tools:call:answer",
        source=_PORT,
        behaviour="call gives the tool configuration and arguments as they are and returns its answer",
    ),
    Requirement(id="tools:call:own-copy", source=_PORT, behaviour="an answer shares nothing with what the caller gave"),
    Requirement(id="tools:call:unknown", source=_PORT, behaviour="an unknown tool is NotFoundError and names the tool"),
    Requirement(
        id="tools:call:refused", source=_PORT, behaviour="arguments that the tool does not take are InvalidError"
    ),
    Requirement(
        id="tools:call:no-json",
        source=_PORT,
        behaviour="arguments that are no JSON are InvalidError and the tool is not called",
    ),
    Requirement(
        id="tools:call:failure",
        source=_PORT,
        behaviour="a tool that fails is UnavailableError and names the tool, not an answer",
    ),
    Requirement(
        id="tools:answer:no-json", source=_PORT, behaviour="an answer that is no JSON object is UnavailableError"
    ),
    Requirement(
        id="tools:threads:calls", source=_PORT, behaviour="eight threads calling at once each get their own answer"
    ),
    Requirement(id="tools:close:idempotent", source=_PORT, behaviour="close can be called again"),
]
