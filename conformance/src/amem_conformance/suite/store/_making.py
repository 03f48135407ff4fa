"""Versions to write, as the format has them: the number stands in the frontmatter, where a store may read it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from amem_core.errors import AmemError
from amem_core.ports.store import NewVersion, Store, Stored


def digest(data: bytes) -> str:
    """Return the digest of stored bytes."""
    return hashlib.sha256(data).hexdigest()


def text(id: str, version: int, body: str = "") -> bytes:
    """Return the bytes of one version."""
    return f"---\nid: {id}\nversion: {version}\ntitle: about {id}\n---\n{body or f'text {version} of {id}'}\n".encode()


def new(id: str, version: int = 1, *, after: bytes | None = None, body: str = "") -> NewVersion:
    """Return a version to write in the place of the bytes ``after``."""
    data = text(id, version, body)
    return NewVersion(id, version, data, digest(data), None if after is None else digest(after))


def chain(id: str, *numbers: int) -> list[NewVersion]:
    """Return versions of one id that replace each other."""
    made: list[NewVersion] = []
    for number in numbers:
        made.append(new(id, number, after=made[-1].data if made else None))
    return made


def write(store: Store, domain: str, *versions: NewVersion) -> None:
    """Stage and publish, one version after the other."""
    for version in versions:
        store.stage(domain, [version])
        store.publish(domain, [version])


def ids(store: Store, domain: str) -> list[str]:
    """Return the ids of a listing, in its order."""
    return [found.id for found in store.entries(domain) if isinstance(found, Stored)]


def stamps(store: Store, domain: str) -> dict[str, str]:
    """Return the stamps of a listing by id."""
    return {found.id: found.stamp for found in store.entries(domain) if isinstance(found, Stored)}


def error_of(call: Callable[[], object]) -> type[AmemError] | None:
    """Return the type of the error that ``call`` raises."""
    try:
        call()
    except AmemError as error:
        return type(error)
    return None
