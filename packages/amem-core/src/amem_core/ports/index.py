"""The Index port: derived, disposable, and the only thing that ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from amem_core.domain.entries import Document
    from amem_core.domain.labels import Label, Status
    from amem_core.domain.queries import Conditions, Hit, Query, ReadFilter


class IndexCapabilities(NamedTuple):
    """What an index can promise beyond the base contract.

    ``files`` are the names below the root's ``state`` that are its own, directories with all that is in
    them: nobody else changes those, and an erasure leaves them to ``forget``.
    """

    multi_process: bool = False
    files: tuple[str, ...] = ()


class Kept(NamedTuple):
    """What an index keeps of one version, to be laid beside the record. ``label`` is the one that it is shown under."""

    id: str
    version: int
    digest: str
    known_from: datetime
    label: Label
    status: Status


class Index(Protocol):
    """Ranks and filters entries.

    It keeps every version of an entry with the time at which it became known, so that ``as_of`` is
    a filter like any other; without ``as_of`` only the newest version of each id answers. An
    earlier version carries the higher of its own label and the newest version's. Filters are
    applied inside the query. Equal scores are ordered by id. Callable from any thread.

    Of the versions of an id that were known at an instant, from their ``known_from`` on, the highest
    answers, with the status and tier that it had. With ``valid_at``, where only active entries are
    asked for, a superseded one that has a ``valid_until`` answers as well: it was not wrong, it ended.
    A span of time holds its beginning and not its end; a date stands for its first instant in
    UTC as ``valid_from``, and lasts to its end in UTC as ``valid_until``. Of several types, statuses,
    tiers or authors in the conditions an entry has one; of several tags it has all,
    of ``any_tags`` one. ``source_prefix``
    begins one of its sources. A time without an offset is refused with ``InvalidError``; a limit below
    1 asks for nothing. What cannot be UTF-8 (an unpaired surrogate) is kept and answered as U+FFFD.
    """

    @property
    def capabilities(self) -> IndexCapabilities:
        """What this index can promise, as configured."""
        ...

    def apply(self, domain: str, documents: Sequence[Document], *, through: int) -> None:
        """Take in versions and record that the domain's log was followed through event ``through``.

        Visible to search when it returns, in all threads and processes. Applying a version again
        replaces it, so that a write that a crash cut short can be repeated.
        """
        ...

    def watermark(self, domain: str) -> int:
        """Return the ``through`` of the last apply or rebuild; 0 for a domain that it does not know."""
        ...

    def rebuild(self, domain: str, documents: Iterable[Document], *, through: int) -> int:
        """Replace all that is kept of the domain by ``documents``; return how many it took.

        Readers see the old state until the new one is whole. Memory stays flat. ``documents`` of one
        id come together, oldest version first. What is applied or forgotten while it runs stands. When
        ``documents`` raises, the old state stays.
        """
        ...

    def forget(self, domain: str, id: str, keep: Document | None) -> bool:
        """Remove every version of ``id`` so that its bytes leave the index's files; then take in ``keep``.

        Returns whether the bytes are known to be gone: False when another connection held them.
        """
        ...

    def search(self, query: Query) -> list[Hit]:
        """Return the best ``query.limit`` hits, best first.

        Every word of the text counts and no character is syntax: ``C++``, ``foo-bar``, ``"``, ``*``
        and ``AND`` are text. Entries that hold all words come before entries that hold some. Text
        with no word in it finds nothing.
        """
        ...

    def select(
        self,
        readable: ReadFilter,
        conditions: Conditions,
        *,
        order: Literal["newest", "oldest", "id"] = "newest",
        limit: int = 100,
        as_of: datetime | None = None,
        valid_at: datetime | None = None,
    ) -> list[Hit]:
        """Return the entries that meet the conditions, ordered by ``created`` and id, or by id, with no ranking.

        ``newest`` is ``oldest`` backwards, ids included.
        """
        ...

    def find(self, id: str, *, as_of: datetime | None = None) -> Hit | None:
        """Return the newest version of ``id``, or the one that was known at ``as_of``, in whatever domain and status.

        None when there is none, or was none by then. The caller asks the policy.
        """
        ...

    def versions(self, domain: str, id: str | None = None) -> Iterator[Kept]:
        """Yield every version that is kept of the domain, or of one id in it, by id and number. Memory stays flat.

        What is applied or rebuilt while it runs may be in it or not; everything else is, once.
        """
        ...

    def close(self) -> None:
        """Release what is held. Idempotent."""
        ...
