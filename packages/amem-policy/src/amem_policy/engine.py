"""The Rego engine: one parse for each thread and text, and no failure that is not one sentence.

An engine belongs to the thread that made it, and dropping it in another is an error too, so that
engines live in a store of the thread and never in an object that others hold.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, Protocol, cast

import regorus  # type: ignore[import-untyped]  # the distribution ships no types

if TYPE_CHECKING:
    from amem_policy.bundle import Bundle

# Texts that one thread keeps parsed. More than one is needed only where one process has several roots.
_KEPT = 4

_THREAD = threading.local()


class _Engine(Protocol):
    """What of the engine is used. JSON text goes in and comes out: its own conversions differ between builds."""

    def add_policy(self, path: str, rego: str, /) -> object: ...

    def add_data_json(self, data: str, /) -> None: ...

    def clear_data(self) -> None: ...

    def set_input_json(self, input: str, /) -> None: ...

    def eval_rule_as_json(self, rule: str, /) -> str: ...


class EngineFailure(Exception):  # noqa: N818  (never seen outside this package: it becomes a denial)
    """The engine gave no answer; the message says why in one line."""


def check(bundle: Bundle) -> None:
    """Parse the bundle in this thread.

    Raises:
        EngineFailure: a text is no Rego.
    """
    count = bundle.needed("session")
    _parsed(bundle, count)


def evaluate(bundle: Bundle, grants: tuple[str, str], rule: str, action: str, input: str) -> Any:
    """Return the value of ``data.amem.<rule>`` for the JSON text ``input``.

    ``grants`` are the version and the JSON text of the data document.

    Raises:
        EngineFailure: the rule is undefined or fails, or the engine panics.
    """
    if not bundle.modules:
        message = "the policy is empty"
        raise EngineFailure(message)
    count = bundle.needed(action)
    slot = _parsed(bundle, count)
    try:
        if slot.version != grants[0]:
            slot.version = ""
            slot.engine.clear_data()
            slot.engine.add_data_json(grants[1])
            slot.version = grants[0]
        slot.engine.set_input_json(input)
        answer = slot.engine.eval_rule_as_json(f"data.amem.{rule}")
    except Exception as exc:
        message = f"the policy's rule {rule} failed: {_first_words(exc)}"
        raise EngineFailure(message) from exc
    except BaseException as exc:
        if type(exc).__name__ != "PanicException":
            raise
        # What a panic left half done is not asked again.
        _slots().pop((bundle.digest, count), None)
        message = f"the policy's rule {rule} made the engine panic: {_first_words(exc)}"
        raise EngineFailure(message) from exc
    if answer == '"<undefined>"':
        message = f"the policy's rule {rule} is undefined for this"
        raise EngineFailure(message)
    return json.loads(answer)


class _Slot:
    """One thread's engine for one text, and the version of the grants that it holds."""

    __slots__ = ("engine", "version")

    def __init__(self, engine: _Engine) -> None:
        self.engine = engine
        self.version = ""


def _slots() -> dict[tuple[str, int], _Slot]:
    try:
        slots: dict[tuple[str, int], _Slot] = _THREAD.slots
    except AttributeError:
        slots = _THREAD.slots = {}
    return slots


def _parsed(bundle: Bundle, count: int) -> _Slot:
    slots = _slots()
    key = (bundle.digest, count)
    slot = slots.get(key)
    if slot is None:
        slot = _Slot(_parse(bundle, count))
        while len(slots) >= _KEPT:
            del slots[next(iter(slots))]
        slots[key] = slot
    return slot


def _parse(bundle: Bundle, count: int) -> _Engine:
    engine = cast("_Engine", cast("Any", regorus).Engine())
    for name, text in bundle.modules[:count]:
        try:
            engine.add_policy(name, text)
        except Exception as exc:
            message = f"{name} is no Rego: {_first_words(exc)}"
            raise EngineFailure(message) from exc
        except BaseException as exc:
            if type(exc).__name__ != "PanicException":
                raise
            message = f"{name} made the engine panic: {_first_words(exc)}"
            raise EngineFailure(message) from exc
    return engine


def _first_words(exc: BaseException) -> str:
    """Return what the engine says, in one line, without its back trace."""
    said = str(exc).partition("Stack backtrace:")[0]
    lines = [line.strip() for line in said.splitlines()]
    return " ".join(line for line in lines if line.strip("|^ ")) or type(exc).__name__
