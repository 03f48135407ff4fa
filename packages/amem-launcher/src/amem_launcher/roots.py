"""Which root a command works on. The command line reads the environment; the library does not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from amem_core.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = ".amem"


def find_root(given: str | None, environ: Mapping[str, str]) -> str:
    """Return the root: ``given``, else ``AMEM_ROOT``, else the nearest ``.amem`` above, else ``~/.amem``.

    Raises:
        InvalidError: the root is an empty name, or a ``.amem`` above belongs to somebody else.
    """
    if given is not None:
        return _named(given, "--root")
    if environ.get("AMEM_ROOT"):
        return _named(environ["AMEM_ROOT"], "AMEM_ROOT")
    return _nearest() or os.path.join(os.path.expanduser("~"), FOLDER)


def _named(path: str, where: str) -> str:
    if not path.strip():
        message = f"{where} is empty"
        raise InvalidError(message, hint=f"give {where} the path of a directory, or leave it out")
    if "\0" in path:
        message = f"{where} holds a NUL character, which no path can"
        raise InvalidError(message, hint=f"give {where} the path of a directory")
    return os.path.abspath(os.path.expanduser(path))


def _nearest() -> str | None:
    """Return the nearest ``.amem`` at or above the working directory."""
    try:
        here = os.getcwd()
    except FileNotFoundError:
        return None
    while True:
        candidate = os.path.join(here, FOLDER)
        if os.path.isdir(candidate):
            return _own(candidate)
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def _own(path: str) -> str:
    """Refuse a root that somebody else left where we would find it: its policy and backends would be theirs."""
    if hasattr(os, "geteuid") and os.stat(path).st_uid != os.geteuid():
        message = f"{path} was found above the working directory and belongs to another user"
        raise InvalidError(
            message, hint=f"if you trust it, name it: amem --root {path} ...; else set AMEM_ROOT to your own"
        )
    return path
