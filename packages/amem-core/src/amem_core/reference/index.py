"""An index in memory that is slow and obvious: what the others are compared with, and what tests of services use."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time
from typing import Final, Literal

from amem_core.domain.entries import Document, Entry
from amem_core.domain.fingerprints import fingerprint
from amem_core.domain.labels import Label, Status
from amem_core.domain.queries import Conditions, Hit, Query, ReadFilter
from amem_core.domain.spans import end_of
from amem_core.errors import InvalidError, UnavailableError
from amem_core.ports.index import IndexCapabilities, Kept

_UNPAIRED: Final = re.compile("[\ud800-\udfff]")
_APART: Final = re.compile("[\ud800-\udfff\u2120\u2122]")
_UNSEEN: Final = re.compile("[\u00ad\u200b-\u200f\ufe00-\ufe0f]")
# Scripts without spaces: there a word is any piece of a run.
_RUN: Final = re.compile(
    "[\u0e01-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17dd\u3005-\u3007\u3041-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)
_EDGES: Final = "\"'()[]{}<>,;:!?*`\u201c\u201d\u2018\u2019\u3001\u3002"
_WEIGHTS: Final = {"title": 4, "names": 4, "summary": 2, "body": 1}

_SITES: dict[str, _State] = {}
_SITES_LOCK: Final = threading.Lock()


class _State:
    """What all instances on one root share."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.domains: dict[str, _Domain] = {}
        self.builds: list[_Domain] = []


class _Domain:
    """Every version of a domain's entries by id and number; also one that is being rebuilt."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.watermark = 0
        self.versions: dict[str, dict[int, Document]] = {}
        self.forgotten: set[str] = set()

    def put(self, document: Document) -> None:
        """Take in a version, in place of the same version if that is there."""
        self.versions.setdefault(document.entry.id, {})[document.entry.version] = document

    def has(self, document: Document) -> bool:
        """Return whether that version is there."""
        return document.entry.version in self.versions.get(document.entry.id, {})


def open_index(root: str, settings: object = None) -> MemoryIndex:  # noqa: ARG001  (as all factories are called)
    """Open the index of ``root``: instances on one root share what they keep, as long as the process lives."""
    with _SITES_LOCK:
        return MemoryIndex(_SITES.setdefault(root, _State()))


class MemoryIndex:
    """An ``Index`` (amem_core.ports.index) that looks at every entry each time."""

    def __init__(self, state: _State) -> None:
        self._shared = state
        self._closed = False

    @property
    def capabilities(self) -> IndexCapabilities:
        """See ``Index.capabilities``."""
        return IndexCapabilities()

    @property
    def _state(self) -> _State:
        if self._closed:
            message = "the index is closed"
            raise UnavailableError(message, hint="open it again")
        return self._shared

    def apply(self, domain: str, documents: Sequence[Document], *, through: int) -> None:
        """See ``Index.apply``."""
        for document in documents:
            _check(domain, document)
        with self._state.lock:
            current = self._state.domains.setdefault(domain, _Domain(domain))
            for each in (current, *self._builds(domain)):
                for document in documents:
                    each.put(document)
            current.watermark = through

    def watermark(self, domain: str) -> int:
        """See ``Index.watermark``."""
        with self._state.lock:
            known = self._state.domains.get(domain)
            return 0 if known is None else known.watermark

    def rebuild(self, domain: str, documents: Iterable[Document], *, through: int) -> int:
        """See ``Index.rebuild``."""
        count = 0
        build = _Domain(domain)
        build.watermark = through
        with self._state.lock:
            self._state.builds.append(build)
        try:
            for document in documents:
                _check(domain, document)
                with self._state.lock:
                    if document.entry.id not in build.forgotten and not build.has(document):
                        build.put(document)
                        count += 1
            with self._state.lock:
                self._state.domains[domain] = build
        finally:
            with self._shared.lock:
                self._shared.builds.remove(build)
        return count

    def forget(self, domain: str, id: str, keep: Document | None) -> bool:
        """See ``Index.forget``."""
        if keep is not None:
            _check(domain, keep)
        with self._state.lock:
            for each in (*self._state.domains.values(), *self._state.builds):
                each.versions.pop(id, None)
                each.forgotten.add(id)
            if keep is not None:
                current = self._state.domains.setdefault(domain, _Domain(domain))
                for each in (current, *self._builds(domain)):
                    each.put(keep)
        return True

    def search(self, query: Query) -> list[Hit]:
        """See ``Index.search``. A score is a count of words by where they stand; all words come before some."""
        question = _Question(query.text)
        scored: list[tuple[float, Hit]] = []
        for document, hit in self._answers(query.readable, query.conditions, query.as_of, query.valid_at):
            score = question.score(document.entry)
            if score > 0:
                scored.append((score, hit))
        scored.sort(key=lambda pair: (-pair[0], pair[1].id))
        return [_scored(hit, score) for score, hit in scored[: max(0, query.limit)]]

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
        """See ``Index.select``."""
        hits = [hit for _, hit in self._answers(readable, conditions, as_of, valid_at)]
        if order == "id":
            hits.sort(key=lambda hit: hit.id)
        elif order in {"newest", "oldest"}:
            hits.sort(key=lambda hit: (hit.created, hit.id), reverse=order == "newest")
        else:
            message = f"{order!r} is no order of a listing"
            raise InvalidError(message, hint="one of: newest, oldest, id")
        return hits[: max(0, limit)]

    def find(self, id: str, *, as_of: datetime | None = None) -> Hit | None:
        """See ``Index.find``."""
        _check_instant(as_of)
        with self._state.lock:
            found = [dict(domain.versions[id]) for domain in self._state.domains.values() if domain.versions.get(id)]
        answers: list[tuple[int, datetime, Hit]] = []
        for versions in found:
            known = [version for version, d in versions.items() if as_of is None or d.known_from <= as_of]
            if known:
                document = versions[max(known)]
                label = max(document.entry.classification, versions[max(versions)].entry.classification)
                answers.append((document.entry.version, document.known_from, _hit(document, label)))
        return max(answers, key=lambda answer: answer[:2])[2] if answers else None

    def versions(self, domain: str, id: str | None = None) -> Iterator[Kept]:
        """See ``Index.versions``."""
        with self._state.lock:
            known = self._state.domains.get(domain)
            kept = {} if known is None else {name: dict(versions) for name, versions in known.versions.items()}
        for name in sorted(kept):
            if id is not None and name != id:
                continue
            newest = kept[name][max(kept[name])].entry.classification
            for number in sorted(kept[name]):
                document = kept[name][number]
                entry = document.entry
                label = max(entry.classification, newest)
                yield Kept(name, number, document.digest, document.known_from.astimezone(UTC), label, entry.status)

    def close(self) -> None:
        """See ``Index.close``."""
        self._closed = True

    def _builds(self, domain: str) -> list[_Domain]:
        return [build for build in self._shared.builds if build.name == domain]

    def _answers(
        self, readable: ReadFilter, conditions: Conditions, as_of: datetime | None, valid_at: datetime | None
    ) -> Iterator[tuple[Document, Hit]]:
        for moment in (as_of, valid_at, conditions.created_from, conditions.created_until):
            _check_instant(moment)
        with self._state.lock:
            kept = [dict(versions) for domain in self._state.domains.values() for versions in domain.versions.values()]
        for versions in kept:
            known = [d for d in versions.values() if as_of is None or d.known_from <= as_of]
            if not known:
                continue
            document = max(known, key=lambda d: d.entry.version)
            newest = versions[max(versions)]
            hit = _hit(document, max(document.entry.classification, newest.entry.classification))
            asked = _with_ended(conditions, document.entry) if valid_at is not None else conditions
            met = _conditions_hold(document.entry, hit, asked) and _valid(document.entry, valid_at)
            if met and readable.allows(hit.domain, hit.label):
                yield document, hit


class _Question:
    """The words of a text, and how many points an entry has for them."""

    def __init__(self, text: str) -> None:
        self.words: list[str] = []
        self.exact: list[str] = []
        for chunk in _folded(text).split():
            term = chunk.strip(_EDGES)
            parts = _pieces(term)
            self.words += parts
            if parts and not term.isalnum() and not _RUN.search(term):
                self.exact.append(term.rstrip(".-/"))

    def score(self, entry: Entry) -> float:
        """Return 0 when no word is there; all words beat some, exactly so beats all."""
        fields = {
            "title": _folded(entry.title),
            "summary": _folded(entry.summary),
            "body": _folded(entry.body),
            "names": _folded("\n".join((*entry.aliases, *entry.tags))),
        }
        whole = "\n".join(fields.values())
        points = 0.0
        held = 0
        for word in self.words:
            counts = {name: _count(word, text) for name, text in fields.items()}
            held += any(counts.values())
            points += sum(_WEIGHTS[name] * count / (count + 1) for name, count in counts.items())
        if self.words and held == len(self.words):
            points += 1e6
            if self.exact and all(_apart(term, whole) for term in self.exact):
                points += 1e6
        return points


def _folded(text: str) -> str:
    seen = _UNSEEN.sub("", _APART.sub(" ", text))
    return unicodedata.normalize("NFKC", seen).casefold().replace("\u2019", "'")


def _pieces(text: str) -> list[str]:
    spaced = _RUN.sub(" ", text)
    return [*_RUN.findall(text), *_words(spaced)]


def _count(word: str, text: str) -> int:
    if _RUN.fullmatch(word):
        return text.count(word)
    return _words(_RUN.sub(" ", text)).count(word)


def _words(text: str) -> list[str]:
    """Return the runs of letters, digits and marks."""
    return "".join(c if unicodedata.category(c)[0] in "LNM" else " " for c in text).split()


def _apart(term: str, text: str) -> bool:
    """Return whether ``term`` stands in ``text`` and is no part of a longer one."""
    return re.search(rf"(?<![^\W_]){re.escape(term)}(?![^\W_]|[+#])", text) is not None


def _conditions_hold(entry: Entry, hit: Hit, conditions: Conditions) -> bool:
    tests: list[tuple[object, Callable[[], bool]]] = [
        (conditions.types, lambda: entry.type in conditions.types),
        (conditions.statuses, lambda: entry.status in conditions.statuses),
        (conditions.tiers, lambda: entry.trust_tier in conditions.tiers),
        (conditions.authors, lambda: entry.author in conditions.authors),
        (conditions.tags, lambda: {_clean(tag) for tag in conditions.tags} <= set(hit.tags)),
        (conditions.any_tags, lambda: not {_clean(tag) for tag in conditions.any_tags}.isdisjoint(hit.tags)),
    ]
    return (
        all(test() for wanted, test in tests if wanted)
        and (conditions.highest_label is None or hit.label <= conditions.highest_label)
        and (conditions.created_from is None or entry.created >= conditions.created_from)
        and (conditions.created_until is None or entry.created < conditions.created_until)
        and (conditions.always_load is None or entry.always_load == conditions.always_load)
        and (conditions.fingerprint is None or conditions.fingerprint == _fingerprint(entry))
        and _has_source(hit, conditions.source_prefix)
    )


def _with_ended(conditions: Conditions, entry: Entry) -> Conditions:
    """Return the conditions that let what was superseded because it ended answer for the time when it held."""
    if conditions.statuses == (Status.active,) and entry.valid_until is not None:
        return conditions._replace(statuses=(Status.active, Status.superseded))
    return conditions


def _fingerprint(entry: Entry) -> str:
    return fingerprint(type=entry.type, title=entry.title, summary=entry.summary, body=entry.body)


def _has_source(hit: Hit, prefix: str | None) -> bool:
    return prefix is None or any(source.startswith(_clean(prefix)) for source in hit.source)


def _valid(entry: Entry, at: datetime | None) -> bool:
    if at is None:
        return True
    began = entry.valid_from is None or _instant(entry.valid_from) <= at
    if entry.valid_until is None or not began:
        return began
    return at < end_of(entry.valid_until)


def _instant(value: date | datetime) -> datetime:
    return value if isinstance(value, datetime) else datetime.combine(value, time(), UTC)


def _hit(document: Document, label: Label) -> Hit:
    entry = document.entry
    return Hit(
        id=entry.id,
        version=entry.version,
        domain=entry.domain,
        type=entry.type,
        title=_clean(entry.title),
        summary=_clean(entry.summary),
        author=entry.author,
        label=label,
        tier=entry.trust_tier,
        status=entry.status,
        created=entry.created.astimezone(UTC),
        updated=entry.updated.astimezone(UTC),
        digest=document.digest,
        source=tuple(map(_clean, entry.source)),
        tags=tuple(map(_clean, entry.tags)),
        valid_from=entry.valid_from,
        valid_until=entry.valid_until,
        review_by=entry.review_by,
        superseded_by=entry.superseded_by,
    )


def _scored(hit: Hit, score: float) -> Hit:
    return hit._replace(score=score)


def _clean(text: str) -> str:
    return _UNPAIRED.sub("\ufffd", text)


def _check(domain: str, document: Document) -> None:
    entry = document.entry
    if entry.domain != domain:
        message = f"{entry.id} is of domain {entry.domain!r}, not {domain!r}"
        raise InvalidError(message, hint="apply each domain's entries under its own name")
    for moment in (document.known_from, entry.created, entry.updated, entry.valid_from, entry.valid_until):
        if isinstance(moment, datetime):
            _check_instant(moment)


def _check_instant(moment: datetime | None) -> None:
    if moment is not None and moment.tzinfo is None:
        message = f"{moment.isoformat()} names no offset from UTC, so it is no instant"
        raise InvalidError(message, hint="give a time with its offset, such as 2026-03-29T02:30:00Z")
