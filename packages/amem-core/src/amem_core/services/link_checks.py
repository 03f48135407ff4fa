"""Checking the links between entries: that they lead somewhere, both ways, and not in a circle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.domain.labels import Status
from amem_core.domain.results import Finding
from amem_core.errors import FormatError, NotFoundError
from amem_core.services import committing
from amem_core.services.reach import holds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amem_core.domain.entries import Entry
    from amem_core.runtime import Runtime


class Links:
    """The links of one domain's entries. Reads what an entry leads to, and holds no more than that."""

    def __init__(self, runtime: Runtime, domain: str) -> None:
        self._runtime = runtime
        self._domain = domain
        self._domains = sorted({domain, *runtime.policy.domains()})
        self._circles: set[str] = set()

    def findings(self, entry: Entry) -> Iterator[Finding]:
        """Yield what is wrong with the links of one entry."""
        for name, ids in (
            ("supersedes", entry.supersedes),
            ("superseded_by", (entry.superseded_by,) if entry.superseded_by else ()),
            ("derived_from", entry.derived_from),
        ):
            for id in ids:
                if not any(holds(self._runtime, domain, id) for domain in self._domains):
                    yield self._dangling(entry, name, id)
        yield from self._back(entry)
        yield from self._circle(entry)

    def leads(self, start: str, end: str) -> bool:
        """Return whether the chain of what supersedes ``start`` comes to ``end``."""
        seen: set[str] = set()
        at: str | None = start
        while at is not None and at not in seen:
            if at == end:
                return True
            seen.add(at)
            entry = self._load(at)
            at = None if entry is None else entry.superseded_by
        return False

    def _load(self, id: str) -> Entry | None:
        """Return an entry of the domain, None for one that is not there or cannot be parsed."""
        try:
            return committing.stored(self._runtime, self._domain, id).entry
        except (NotFoundError, FormatError):
            return None

    def _back(self, entry: Entry) -> Iterator[Finding]:
        """Yield the links of an entry that the other end does not return."""
        if entry.status is Status.erased:
            return
        for id in entry.supersedes:
            old = self._load(id)
            if old is None or old.status is Status.erased or old.superseded_by == entry.id:
                continue
            if old.superseded_by is None and not self.leads(entry.id, id):
                yield self._one_way(id, entry.id, f"{entry.id} supersedes it, and it does not say so")
            else:
                yield self._conflict(id, entry.id, old.superseded_by)
        new = None if entry.superseded_by is None else self._load(entry.superseded_by)
        if new is not None and new.status is not Status.erased and entry.id not in new.supersedes:
            yield self._one_way(
                new.id, entry.id, f"{entry.id} says that it is superseded by it, and it does not say so"
            )

    def _circle(self, entry: Entry) -> Iterator[Finding]:
        """Yield a circle of supersession, once.

        Every circle has a link that leads to an id that is not higher, and hardly any other chain has:
        so following those links finds all circles and costs next to nothing.
        """
        if entry.superseded_by is None or entry.superseded_by > entry.id or entry.id in self._circles:
            return
        members = {entry.id: None}
        at: str | None = entry.superseded_by
        while at is not None and at not in members:
            members[at] = None
            following = self._load(at)
            at = None if following is None else following.superseded_by
        if at != entry.id:
            return
        self._circles.update(members)
        yield Finding(
            domain=self._domain,
            rule="link-cycle",
            state="alarm",
            detail=f"what supersedes it leads back to it: {', '.join(members)}",
            id=entry.id,
            other=entry.superseded_by,
            remedy="take superseded_by out of the one that holds, by hand, and run amem reindex",
        )

    def _dangling(self, entry: Entry, name: str, id: str) -> Finding:
        return Finding(
            domain=self._domain,
            rule="link-dangling",
            state="warning",
            detail=f"{name} names {id}, and there is no such entry",
            id=entry.id,
            other=id,
            remedy="bring that entry here, or take the link out by hand and run amem reindex",
        )

    def _one_way(self, id: str, other: str, detail: str) -> Finding:
        return Finding(
            domain=self._domain,
            rule="link-one-way",
            state="warning",
            detail=detail,
            id=id,
            other=other,
            remedy="amem fsck --repair writes a version that says so",
        )

    def _conflict(self, id: str, other: str, by: str | None) -> Finding:
        said = f"it says that {by} does" if by is not None else "what supersedes that one leads back here"
        return Finding(
            domain=self._domain,
            rule="link-conflict",
            state="warning",
            detail=f"{other} supersedes it, and {said}",
            id=id,
            other=other,
            remedy="take one of the links out by hand and run amem reindex",
        )
