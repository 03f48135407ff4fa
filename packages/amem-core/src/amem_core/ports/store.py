"""The Store port: the record, versioned and never edited in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

MarkKind = Literal["erasures", "tombstones", "promotions"]
"""What a mark is of: an erasure (its receipt, by the entry's id), a value that may not come back (by the value's key),
or a promotion that an imported entry had elsewhere (by the entry's id)."""


class NewVersion(NamedTuple):
    """A version to be written. ``replaces`` is the digest of the current version's bytes, None for the first."""

    id: str
    version: int
    data: bytes
    digest: str
    replaces: str | None


class StagedVersion(NamedTuple):
    """A version that is durable but not served yet."""

    id: str
    version: int
    digest: str


class Stored(NamedTuple):
    """One entry of a listing. ``stamp`` changes when the stored bytes change; compare it, do not read it."""

    id: str
    stamp: str


class Unreadable(NamedTuple):
    """Something in the record that is not an entry's file: where it is and which rule it breaks."""

    path: str
    reason: str


class StoreCapabilities(NamedTuple):
    """What a store can promise beyond the base contract. All default to no."""

    multi_process: bool = False
    max_bytes: int | None = None


class Store(Protocol):
    """The record.

    A write has two steps, so that the log can stand between them: ``stage`` makes bytes durable and
    invisible, ``publish`` makes them the current version. Whoever calls either holds the domain's
    log writer. Callable from any thread. Domains and ids were checked at the gate; a store refuses
    what would leave its root all the same. Version numbers of one id only grow, not always by one.

    Raises, every method: ``UnavailableError`` when the store cannot be reached or has no room (a
    listing that failed is never an empty listing), ``DeniedError`` never.
    """

    @property
    def capabilities(self) -> StoreCapabilities:
        """What this store can promise, as configured."""
        ...

    def stage(self, domain: str, versions: Sequence[NewVersion]) -> None:
        """Make the versions durable and leave them invisible. Staging the same again replaces it."""
        ...

    def publish(self, domain: str, versions: Sequence[NewVersion]) -> None:
        """Make staged versions current and keep the ones they replace readable under their numbers.

        Each version is replaced whole or not at all and all are durable on return. Publishing what
        is current already (same version, same digest) changes nothing, so that a publish that a
        crash cut short can be repeated. ``data`` is not read: the staged bytes are what is published.

        Raises:
            ConflictError: the current bytes' digest is not ``replaces``, or an entry exists where
                ``replaces`` is None, or the version was written before with another digest. What
                was staged for it stays staged.
            NotFoundError: nothing is staged under that id, version and digest.
        """
        ...

    def staged(self, domain: str) -> list[StagedVersion]:
        """Return what is staged and not published, by id and version."""
        ...

    def read_staged(self, domain: str, id: str, version: int) -> bytes:
        """Return staged bytes.

        Raises:
            NotFoundError: nothing is staged under that id and version.
        """
        ...

    def discard(self, domain: str, id: str, version: int) -> None:
        """Remove staged bytes; nothing happens when there are none."""
        ...

    def read(self, domain: str, id: str, version: int | None = None) -> bytes:
        """Return the bytes of the current version, or of an earlier one by its number.

        The store knows the number of an earlier version only; asking for the current version by
        number raises ``NotFoundError`` here, and the caller, who reads the number in the current
        bytes, asks for the current first.

        Raises:
            NotFoundError: there is no such entry or version.
            UnavailableError: it is there and cannot be read (permissions, input or output error).
        """
        ...

    def earlier_versions(self, domain: str, id: str) -> list[int]:
        """Return the numbers of the versions kept behind the current one, ascending; empty for an unknown id."""
        ...

    def entries(self, domain: str) -> Iterator[Stored | Unreadable]:
        """Yield every current entry of the domain once, by id, and what is there but is no entry's file.

        An entry that is published while the listing runs may or may not be in it; every other is.
        """
        ...

    def domains(self) -> list[str]:
        """Return the domains that hold at least one entry, sorted."""
        ...

    def erase(self, domain: str, id: str, stub: bytes, stub_version: int) -> list[int]:
        """Replace the current version by ``stub`` and remove the bytes of every other version and staging.

        Durable on return. Returns the earlier versions that were removed. Repeating it changes nothing.
        """
        ...

    def save_mark(self, domain: str, kind: MarkKind, key: str, data: bytes) -> None:
        """Write a mark, whole or not at all, in place of the one of its key; durable on return.

        A mark is a small document beside the entries that outlives them. None is ever removed.
        """
        ...

    def marks(self, domain: str, kind: MarkKind) -> Iterator[tuple[str, bytes]]:
        """Yield the key and bytes of every mark of a kind, by key."""
        ...

    def marks_of(self, domain: str, kind: MarkKind, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the marks of these keys that are there. Costs no listing: every write asks."""
        ...

    def close(self) -> None:
        """Release what is held. Idempotent."""
        ...
