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
    """Parse the bundle in this thread, as far as a session needs it.

    Raises:
        EngineFailure: a text is no Rego.
    """
    fault = _prepare(bundle, bundle.needed("session"))
    if fault:
        raise EngineFailure(fault)


def evaluate(bundle: Bundle, grants: tuple[str, str], rule: str, action: str, input: str) -> Any:
    """Return the value of ``data.amem.<rule>`` for the JSON text ``input``.

    ``grants`` are the version and the JSON text of the data document.

    Raises:
        EngineFailure: the rule is undefined or fails, or the engine panics.
    """
    if not bundle.modules:
        message = "the policy is empty"
        raise EngineFailure(message)
    # No error leaves from where an engine is in reach: whoever keeps the error would keep the engine
    # with its frame, and drop it in whichever thread the garbage is collected.
    answer, fault = _ask(bundle, grants, rule, bundle.needed(action), input)
    if fault:
        raise EngineFailure(fault)
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


def _ask(bundle: Bundle, grants: tuple[str, str], rule: str, count: int, input: str) -> tuple[str, str]:
    """Return the answer as JSON text and an empty string, or an empty string and what went wrong."""
    fault = _prepare(bundle, count)
    if fault:
        return "", fault
    slot = _slots()[bundle.digest, count]
    try:
        if slot.version != grants[0]:
            slot.version = ""
            slot.engine.clear_data()
            slot.engine.add_data_json(grants[1])
            slot.version = grants[0]
        slot.engine.set_input_json(input)
        return slot.engine.eval_rule_as_json(f"data.amem.{rule}"), ""
    except Exception as exc:  # noqa: BLE001  (whatever it is, it is a denial that says so)
        return "", f"the policy's rule {rule} fails: {_first_words(exc)}"
    except BaseException as exc:
        if not _panicked(exc):
            raise
        # What a panic left half done is not asked again.
        del _slots()[bundle.digest, count]
        return "", f"the policy's rule {rule} makes the engine panic: {_first_words(exc)}"


def _prepare(bundle: Bundle, count: int) -> str:
    """See to it that this thread has an engine for the bundle; return what is wrong with the text, if anything."""
    slots = _slots()
    key = (bundle.digest, count)
    if key in slots:
        return ""
    engine = cast("_Engine", cast("Any", regorus).Engine())
    fault = parse(engine, bundle, count)
    if not fault:
        while len(slots) >= _KEPT:
            del slots[next(iter(slots))]
        slots[key] = _Slot(engine)
    return fault


def parse(engine: _Engine, bundle: Bundle, count: int) -> str:
    """Give the first ``count`` texts to the engine; return what is wrong with one, or an empty string."""
    for name, text in bundle.modules[:count]:
        try:
            engine.add_policy(name, text)
        except Exception as exc:  # noqa: BLE001  (whatever it is, it is a denial that says so)
            return f"{name} is no Rego: {_first_words(exc)}"
        except BaseException as exc:
            if not _panicked(exc):
                raise
            return f"{name} makes the engine panic: {_first_words(exc)}"
    return ""


def _panicked(exc: BaseException) -> bool:
    return type(exc).__name__ == "PanicException"


def _first_words(exc: BaseException) -> str:
    """Return what the engine says, in one line, without its back trace."""
    said = str(exc).partition("Stack backtrace:")[0]
    lines = [line.strip() for line in said.splitlines()]
    return " ".join(line for line in lines if line.strip("|^ ")) or type(exc).__name__
