"""From what a policy's rules answer to the port's values. An answer of the wrong shape is no answer."""

from __future__ import annotations

from typing import cast

from amem_core.domain.labels import Label
from amem_core.domain.queries import ReadFilter

# What an allowed action must oblige to, each a label: without it the caller would not know what it may do.
_OWED = {"session": "ceiling", "write": "label", "file_task": "label", "export": "max_label"}
_LABELS = ("ceiling", "label", "max_label")


class WrongShapeError(Exception):
    """The answer is not what a rule must answer; the message says how. It becomes a denial."""


class Answer:
    """A decision as the policy gave it, checked."""

    __slots__ = ("allowed", "obligations", "reasons", "rules")

    def __init__(self, action: str, found: object) -> None:
        table = _object(found, "decision")
        allowed = table.get("allow")
        if not isinstance(allowed, bool):
            message = "the policy's decision has no allow that is true or false"
            raise WrongShapeError(message)
        self.allowed = allowed
        self.reasons = _words(table, "reasons")
        self.rules = _words(table, "rules")
        self.obligations = _object(table.get("obligations"), "decision's obligations")
        for key in _LABELS:
            if key in self.obligations:
                _label(self.obligations[key], f"obligation {key}")
        if allowed and action in _OWED and _OWED[action] not in self.obligations:
            message = f"the policy allows {action} and says no {_OWED[action]}"
            raise WrongShapeError(message)


def filter_of(found: object) -> ReadFilter:
    """Return the read filter that a policy answered.

    Raises:
        WrongShapeError: it is no object of labels.
    """
    table = _object(found, "read_filter")
    return ReadFilter({name: _label(word, f"read_filter for {name}") for name, word in table.items()})


def _object(found: object, what: str) -> dict[str, object]:
    if isinstance(found, dict):
        return cast("dict[str, object]", found)
    message = f"the policy's {what} is no object"
    raise WrongShapeError(message)


def _words(table: dict[str, object], key: str) -> tuple[str, ...]:
    found = table.get(key)
    if isinstance(found, list):
        words = cast("list[object]", found)
        texts = tuple(word for word in words if isinstance(word, str))
        if len(texts) == len(words):
            return texts
    message = f"the policy's decision has no {key} that are a list of text"
    raise WrongShapeError(message)


def _label(word: object, what: str) -> Label:
    if isinstance(word, str) and word in Label.__members__:
        return Label[word]
    message = f"the policy's {what} is no label"
    raise WrongShapeError(message)
