"""Adding a domain to ``grants.toml`` without touching what the owner wrote there; no decision loads it."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from amem_core.domain.labels import Label
from amem_core.domain.names import check_domain
from amem_core.errors import ConfigError, ConflictError, UnavailableError
from amem_policy.grants import FORMAT, parse_grants, read_file

if TYPE_CHECKING:
    from collections.abc import Generator

_NEW = f"""\
# What the owner of this memory grants. Read by the policy at every decision; a change counts at once.
# Labels, lowest first: public, internal, confidential, restricted.
format = {FORMAT}

[owner]

# Where what is read may flow to, and the highest label that may.
[destinations.model]
ceiling = "internal"

[destinations.export]
ceiling = "internal"

# The domains: the label of what is written there by default, and who holds it.
"""


def append_domain(path: str, name: str, label: Label | str) -> None:
    """Do what ``amem_policy.grants.add_domain`` promises."""
    check_domain(name)
    word = str(Label.parse(label))
    real = os.path.realpath(path)
    try:
        with _locked(os.path.dirname(real)):
            _write(real, _with_domain(path, real, name, word))
    except OSError as exc:
        message = f"{path} cannot be written: {exc.strerror}; it is as it was"
        raise UnavailableError(message, hint="make room, or give this user write permission there") from exc


def _with_domain(path: str, real: str, name: str, word: str) -> bytes:
    data, stamp = read_file(real)
    if stamp is None:
        data = _NEW.encode()
    known = parse_grants(data, path).domains
    if name in known:
        message = f"{path} knows the domain {name} already"
        raise ConflictError(message, hint=f"edit [domains.{name}] there to change its label")
    gap = b"" if data.endswith(b"\n") else b"\n"
    text = data + gap + f'\n[domains.{name}]\nlabel = "{word}"\nholders = ["owner"]\n'.encode()
    try:
        grown = parse_grants(text, path).domains
    except ConfigError as exc:
        message = f"{path}: the domain {name} cannot be appended: {exc}"
        raise ConfigError(message, hint=f"add [domains.{name}] by hand") from exc
    if dict(grown) != {**known, name: Label[word]}:
        message = f"{path}: the domain {name} cannot be appended without changing another"
        raise ConfigError(message, hint=f"add [domains.{name}] by hand")
    return text


def _write(path: str, data: bytes) -> None:
    """Replace the file by ``data``, whole or not at all, durable on return."""
    fresh = f"{path}.{os.getpid()}.new"
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        with suppress(OSError):  # what went wrong first is what the caller must hear
            os.unlink(fresh)
        raise
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


@contextmanager
def _locked(directory: str) -> Generator[None]:
    """Keep two processes from adding to one file at once, by a lock on its directory."""
    handle = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
