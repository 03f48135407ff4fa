"""What decides: a policy's text over the grants as they stand, with the decisions that follow from them."""

from __future__ import annotations

import hashlib
import json
import marshal  # noqa: TID251  (the key of a cache in memory, which nothing stores and nobody else reads)
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from amem_core.domain.decisions import Decision
from amem_core.domain.queries import CLOSED, ReadFilter
from amem_core.errors import AmemError
from amem_policy.answers import Answer, WrongShapeError, filter_of
from amem_policy.engine import EngineFailure, evaluate
from amem_policy.grants import Grants, parse_grants, read_file
from amem_policy.stamps import UNREAD

if TYPE_CHECKING:
    from amem_core.domain.labels import Label
    from amem_policy.bundle import Bundle
    from amem_policy.stamps import Stamp

_REMEMBERED = 1024


class State:
    """One version: a policy's text, grants, and the decisions that follow from them."""

    def __init__(self, path: str, bundle: Bundle) -> None:
        self._bundle = bundle
        self.stamp: Stamp | tuple[str, ...] = UNREAD
        self.fault: AmemError | None = None
        self.domains: Mapping[str, Label] = {}
        self._missing = False
        data = b""
        grants = Grants(b"", {}, (), {})
        try:
            data, self.stamp = read_file(path)
            self._missing = self.stamp is None
            if not self._missing:
                grants = parse_grants(data, path)
                self.domains = grants.domains
        except AmemError as exc:
            self.fault = exc
        told = hashlib.sha256(f"{bundle.digest}:{type(self.fault).__name__}:".encode() + data)
        self.version = told.hexdigest()[:16]
        self._grants = (self.version, grants.as_json())
        self.decided = lru_cache(maxsize=_REMEMBERED)(self._decide_key)

    def _decide_key(self, action: str, key: bytes) -> Decision:
        return self._evaluate(action, marshal.loads(key))  # noqa: S302  (this process made it, from a plain value)

    def decide(self, action: str, input: Mapping[str, Any]) -> Decision:
        """Decide; deny and say why when there is no answer."""
        try:
            # Version 0 of the format has no references, so that equal values have equal bytes, and it
            # tells false, null and 0 apart, which a tuple as the key would not.
            return self.decided(action, marshal.dumps(cast("Any", input), 0))
        except (ValueError, EngineFailure, WrongShapeError):
            return self._uncached(action, input)

    def _uncached(self, action: str, input: object) -> Decision:
        try:
            return self._evaluate(action, input)
        except (EngineFailure, WrongShapeError) as exc:
            return self._denied(str(exc), "policy-failed")

    def _evaluate(self, action: str, input: object) -> Decision:
        """Ask the engine.

        Raises:
            EngineFailure: it gave no answer; nothing remembers that.
            WrongShapeError: it gave an answer that means nothing.
        """
        if self.fault is not None:
            return self._denied(f"the grants cannot be used: {self.fault}", "grants-broken")
        if self._missing:
            return self._denied("there is no grants.toml, and what nobody granted is denied", "no-grants")
        if not isinstance(input, Mapping):
            message = "what is to be decided is no object"
            raise EngineFailure(message)
        given = cast("Mapping[str, object]", input)
        text = _as_json({"action": action, "session": given.get("session"), "resource": given.get("resource")})
        answer = Answer(action, evaluate(self._bundle, self._grants, "decision", action, text))
        return Decision(
            allowed=answer.allowed,
            reasons=answer.reasons or (() if answer.allowed else ("the policy denies it and gives no reason",)),
            rules=answer.rules,
            version=self.version,
            # The decision is remembered and handed out again, so that nobody may change it.
            obligations=MappingProxyType(answer.obligations if answer.allowed else {}),
        )

    def read_filter(self, session: Mapping[str, Any]) -> ReadFilter:
        """Return the policy's residual, or nothing."""
        if self.fault is not None or self._missing:
            return CLOSED
        try:
            text = _as_json({"action": "read_filter", "session": session, "resource": {}})
            return filter_of(evaluate(self._bundle, self._grants, "read_filter", "read_filter", text))
        except (EngineFailure, WrongShapeError):
            return CLOSED

    def _denied(self, reason: str, rule: str) -> Decision:
        return Decision(allowed=False, reasons=(reason,), rules=(rule,), version=self.version)


def _plain(value: object) -> object:
    """Return a mapping that is no dict as one."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    message = f"{type(value).__name__} is no JSON value"
    raise TypeError(message)


_encode = json.JSONEncoder(allow_nan=False, default=_plain).encode


def _as_json(document: Mapping[str, Any]) -> str:
    """Return the document as JSON text: the engine's own conversion of Python's values differs between builds.

    Raises:
        EngineFailure: it is not JSON.
    """
    try:
        return _encode(document)
    except (TypeError, ValueError, RecursionError) as exc:
        message = f"what is to be decided is not JSON: {exc}"
        raise EngineFailure(message) from exc
