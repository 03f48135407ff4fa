"""The policy's text: the built-in one of this distribution, or the root's own."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from amem_core.errors import ConfigError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

Module = tuple[str, str]

# What the first part of the built-in policy decides alone: a search asks for nothing else.
_FIRST_PART = frozenset({"session", "read", "claim", "heartbeat", "complete", "release", "read_filter"})
_BUILT_IN = ("amem.rego", "changes.rego")


class Bundle:
    """Named policy texts.

    Attributes:
        modules: all of them.
        digest: SHA-256 over names and texts, hexadecimal.
    """

    __slots__ = ("_first", "digest", "modules")

    def __init__(self, modules: Sequence[Module], first: int) -> None:
        self.modules = tuple(modules)
        self._first = first
        told = hashlib.sha256()
        for name, text in self.modules:
            told.update(f"{len(name)}:{name}{len(text)}:".encode() + text.encode())
        self.digest = told.hexdigest()

    def needed(self, action: str) -> int:
        """Return how many of the modules, from the first, have a word to say on ``action``."""
        return self._first if action in _FIRST_PART else len(self.modules)


def load_bundle(root: str, directory: str) -> Bundle:
    """Return the root's own policy if its bundle directory exists, else the built-in one.

    A bundle directory without a policy in it is a bundle of nothing, which denies everything: the
    built-in policy may allow what the one that is missing did not.

    Raises:
        ConfigError: the directory is outside the root, or a file is no UTF-8.
        UnavailableError: it cannot be read.
    """
    if os.path.isabs(directory) or os.pardir in directory.split("/") or not directory:
        message = f"[policy.rego] bundle = {directory!r} does not stay below the root"
        raise ConfigError(message, hint="name a directory below the root, such as 'policy'")
    path = os.path.join(root, directory)
    try:
        names = sorted(name for name in os.listdir(path) if name.endswith(".rego"))
    except FileNotFoundError:
        home = os.path.join(os.path.dirname(__file__), "rego")
        return Bundle([(name, _read(os.path.join(home, name))) for name in _BUILT_IN], 1)
    except OSError as exc:
        raise _unreadable(path, exc) from exc
    return Bundle([(os.path.join(directory, name), _read(os.path.join(path, name))) for name in names], len(names))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError as exc:
        message = f"{path} is no UTF-8: {exc.reason} at byte {exc.start}"
        raise ConfigError(message, hint="save the policy as UTF-8") from exc
    except OSError as exc:
        raise _unreadable(path, exc) from exc


def _unreadable(path: str, exc: OSError) -> UnavailableError:
    message = f"{path} cannot be read: {exc.strerror}"
    return UnavailableError(message, hint="give this user read permission there; nothing is decided without it")
