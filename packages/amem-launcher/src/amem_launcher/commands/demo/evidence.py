"""What each step of the demo showed: ids, ranks, tokens and refusals, as figures and as lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Evidence(Protocol):
    """What one step showed."""

    def lines(self) -> list[str]:
        """Return it as a person reads it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """Step 1. Counts are of sections; ``again`` are those that a second ingest wrote."""

    domain: str
    label: str
    grants: str
    files: int
    sections: int
    broken: int
    again: int

    def lines(self) -> list[str]:
        """Return it as a person reads it."""
        broken = f", {self.broken} files could not be read" if self.broken else ""
        return [
            f"domain {self.domain}, label {self.label}, granted in {self.grants}",
            f"ingested {self.files} files as {self.sections} entries{broken}; ingested again: {self.again} written",
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """Step 2. Tokens are of what session one said and was told, and of the documents that it read."""

    author: str
    decision: str
    handoff: str
    topic: str
    next_topic: str
    exchanged: int
    exchanged_tokens: int
    documents: int
    document_tokens: int

    @property
    def tokens(self) -> int:
        """The whole transcript's."""
        return self.exchanged_tokens + self.document_tokens

    def lines(self) -> list[str]:
        """Return it as a person reads it."""
        return [
            f"decision {self.decision} and handoff {self.handoff}, by {self.author}",
            (
                f"its transcript, {self.tokens:,} tokens: {self.exchanged} calls with {self.exchanged_tokens:,},"
                f" {self.documents} documents with {self.document_tokens:,}"
            ),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class WentOn:
    """Step 3. ``place`` is the handoff's among the open handoffs of T0, from 1."""

    author: str
    handoff: str
    place: int
    successor: str
    t0_tokens: int
    t0_characters: int
    transcript_tokens: int

    def lines(self) -> list[str]:
        """Return it as a person reads it."""
        times = self.transcript_tokens / self.t0_tokens
        return [
            (
                f"T0: {self.t0_tokens:,} tokens, {self.t0_characters:,} characters;"
                f" the transcript that it replaces: {self.transcript_tokens:,} tokens, {times:.1f} times as many"
            ),
            f"handoff {self.handoff} stands in place {self.place}; {self.author} went on where it points",
            f"and left {self.successor}, which supersedes it; T0 now shows that one alone",
        ]


@dataclass(frozen=True, slots=True)
class Ranked:
    """One hit."""

    rank: int
    id: str
    score: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedUp:
    """Step 4. ``sought`` is the rank of the section whose title was asked for."""

    query: str
    hits: tuple[Ranked, ...]
    sought: int
    got: str
    search_tokens: int
    body_tokens: int

    def lines(self) -> list[str]:
        """Return it as a person reads it."""
        shown = [f"{hit.rank:>4}. {hit.score:.4g}  {hit.id}  {hit.title}" for hit in self.hits[:3]]
        return [
            (
                f"{self.query!r}: {len(self.hits)} hits in {self.search_tokens:,} tokens,"
                f" the section sought at rank {self.sought}"
            ),
            *shown,
            f"get {self.got}: one body, {self.body_tokens:,} tokens",
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """Step 5. ``refused`` and ``stale`` are the refusals: of a second claim, and of writes under a lost lease."""

    task: str
    holder: str
    fence: int
    lease_until: str
    renewed_until: str
    refused: str
    result: str
    returned: str
    old_fence: int
    new_fence: int
    stale: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return it as a person reads it."""
        return [
            f"{self.task}: claimed by {self.holder} with fence {self.fence} until {self.lease_until}",
            f"a second claim: {self.refused}",
            f"renewed until {self.renewed_until}, completed, result kept as {self.result}",
            (
                f"{self.returned}: its lease expired, it was given out again, fence {self.old_fence} became"
                f" {self.new_fence}; under the old one:"
            ),
            *(f"  {refusal}" for refusal in self.stale),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Travelled:
    """Step 6. ``refusals`` are by what was wrong with the bundle."""

    entries: int
    highest_label: str
    withheld: int
    tier: str
    refusals: dict[str, str]

    def lines(self) -> list[str]:
        """Return it as a person reads it."""
        return [
            f"exported {self.entries} entries, up to {self.highest_label}; {self.withheld} above it stayed",
            f"imported {self.entries} entries into another root, all at tier {self.tier}; then refused:",
            *(f"  {wrong}: {refusal}" for wrong, refusal in self.refusals.items()),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """Step 7. ``digest`` is the SHA-256 of all answers, before and after."""

    deleted: tuple[str, ...]
    entries: int
    versions: int
    tasks: int
    answers: int
    size: int
    digest: str

    def lines(self) -> list[str]:
        """Return it as a person reads it."""
        return [
            f"deleted {', '.join(self.deleted)}",
            f"rebuilt {self.entries} entries in {self.versions} versions and {self.tasks} tasks",
            f"{self.answers} answers, {self.size:,} bytes, the same before and after: sha256 {self.digest[:16]}",
        ]
