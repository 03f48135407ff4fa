"""Backends that each break one promise, made from the reference adapters: the suite must turn red at it.

Each public name of this module is a harness; ``EXPECTED`` says at which requirements it must fail.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from amem_conformance.harness import Site
from amem_conformance.loading import MemoryHarness
from amem_core.domain.labels import Label
from amem_core.domain.queries import ReadFilter
from amem_core.errors import AmemError, ConflictError, NotFoundError
from amem_core.plugins.loader import load_backend, open_backend


class Broken:
    """Hands everything to a reference adapter, except what a subclass does wrong."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class BrokenHarness(MemoryHarness):
    """Opens a reference adapter inside a broken one."""

    def __init__(self, port: str, wrap: Callable[[Any], Broken]) -> None:
        super().__init__()
        self._port = port
        self._wrap = wrap

    def open(self, site: Site) -> Any:
        spec = load_backend(f"{self._port}.memory")
        return self._wrap(open_backend(spec, site.root, site.settings))

    def equip(self, backend: Any) -> None:
        super().equip(backend.inner)


# -- store ------------------------------------------------------------------------------------------


class _LosesTheLastWrite(Broken):
    def publish(self, domain: str, versions: Any) -> None:
        self.inner.publish(domain, list(versions)[:-1])


class _IgnoresCompareAndSwap(Broken):
    def publish(self, domain: str, versions: Any) -> None:
        try:
            self.inner.publish(domain, versions)
        except ConflictError:
            for version in versions:
                data = self.inner.read_staged(domain, version.id, version.version)
                self.inner.erase(domain, version.id, data, version.version)


class _ServesWhatIsStaged(Broken):
    def read(self, domain: str, id: str, version: int | None = None) -> bytes:
        for staged in self.inner.staged(domain):
            if staged.id == id:
                return bytes(self.inner.read_staged(domain, id, staged.version))
        return bytes(self.inner.read(domain, id, version))


class _ListsAllButOne(Broken):
    def entries(self, domain: str) -> Iterator[Any]:
        return iter(list(self.inner.entries(domain))[:-1])


class _KeepsHistoryThroughAnErasure(Broken):
    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self._kept: dict[tuple[str, str, int], bytes] = {}

    def erase(self, domain: str, id: str, stub: bytes, stub_version: int) -> list[int]:
        for number in self.inner.earlier_versions(domain, id):
            self._kept[domain, id, number] = self.inner.read(domain, id, number)
        return list(self.inner.erase(domain, id, stub, stub_version))

    def read(self, domain: str, id: str, version: int | None = None) -> bytes:
        kept = self._kept.get((domain, id, version or 0))
        return bytes(self.inner.read(domain, id, version)) if kept is None else kept


class _ForgetsTombstones(Broken):
    def erase(self, domain: str, id: str, stub: bytes, stub_version: int) -> list[int]:
        self.erased = True
        return list(self.inner.erase(domain, id, stub, stub_version))

    def marks_of(self, domain: str, kind: Any, keys: Any) -> dict[str, bytes]:
        return {} if hasattr(self, "erased") else dict(self.inner.marks_of(domain, kind, keys))


store_loses_the_last_write = BrokenHarness("store", _LosesTheLastWrite)
store_ignores_compare_and_swap = BrokenHarness("store", _IgnoresCompareAndSwap)
store_serves_what_is_staged = BrokenHarness("store", _ServesWhatIsStaged)
store_lists_all_but_one = BrokenHarness("store", _ListsAllButOne)
store_keeps_history_through_an_erasure = BrokenHarness("store", _KeepsHistoryThroughAnErasure)
store_forgets_tombstones = BrokenHarness("store", _ForgetsTombstones)

# -- index ------------------------------------------------------------------------------------------


class _Everything(ReadFilter):
    def allows(self, domain: str, label: Label) -> bool:
        return True


class _IgnoresTheFilter(Broken):
    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self._seen: set[str] = set()

    def apply(self, domain: str, documents: Any, *, through: int) -> None:
        self._seen.add(domain)
        self.inner.apply(domain, documents, through=through)

    def search(self, query: Any) -> Any:
        return self.inner.search(query._replace(readable=_Everything(dict.fromkeys(self._seen, Label.restricted))))


class _FiltersAfterTheLimit(Broken):
    def search(self, query: Any) -> Any:
        every = ReadFilter(dict.fromkeys(query.readable.domains, Label.restricted))
        hits = self.inner.search(query._replace(readable=every))
        return [hit for hit in hits if query.readable.allows(hit.domain, hit.label)]


class _ShowsAWriteLater(Broken):
    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self._waiting: list[Any] = []

    def apply(self, domain: str, documents: Any, *, through: int) -> None:
        for waiting in self._waiting:
            self.inner.apply(waiting[0], waiting[1], through=waiting[2])
        self._waiting = [(domain, list(documents), through)]


class _TakesQuotesForSyntax(Broken):
    def search(self, query: Any) -> Any:
        if query.text.count('"') % 2:
            message = "unterminated string"
            raise RuntimeError(message)
        return self.inner.search(query)


class _RanksUpsideDown(Broken):
    def search(self, query: Any) -> Any:
        return list(reversed(self.inner.search(query)))


index_ignores_the_filter = BrokenHarness("index", _IgnoresTheFilter)
index_filters_after_the_limit = BrokenHarness("index", _FiltersAfterTheLimit)
index_shows_a_write_later = BrokenHarness("index", _ShowsAWriteLater)
index_takes_quotes_for_syntax = BrokenHarness("index", _TakesQuotesForSyntax)
index_ranks_upside_down = BrokenHarness("index", _RanksUpsideDown)

# -- ledger -----------------------------------------------------------------------------------------


class _GrantsALeaseTwice(Broken):
    def claim(self, id: str, *, holder: str, lease: Any, now: Any) -> Any:
        try:
            return self.inner.claim(id, holder=holder, lease=lease, now=now)
        except ConflictError:
            return replace(self.inner.get(id, now=now), holder=holder)


class _IgnoresTheFence(Broken):
    def _current(self, id: str, now: Any) -> int:
        return int(self.inner.get(id, now=now).fence)

    def complete(self, id: str, *, fence: int, actor: str, handoff: str | None, now: Any) -> Any:
        return self.inner.complete(id, fence=self._current(id, now), actor=actor, handoff=handoff, now=now)

    def heartbeat(self, id: str, *, fence: int, lease: Any, now: Any) -> Any:
        return self.inner.heartbeat(id, fence=self._current(id, now), lease=lease, now=now)


class _FilesTwice(Broken):
    def file(self, task: Any, *, actor: str, now: Any) -> Any:
        return self.inner.file(replace(task, upstream_event=None), actor=actor, now=now)


class _ClaimsWhatIsNotReadable(Broken):
    def claim_next(self, readable: ReadFilter, **rest: Any) -> Any:
        every = ReadFilter(dict.fromkeys(readable.domains, Label.restricted))
        return self.inner.claim_next(every, **rest)


ledger_grants_a_lease_twice = BrokenHarness("ledger", _GrantsALeaseTwice)
ledger_ignores_the_fence = BrokenHarness("ledger", _IgnoresTheFence)
ledger_files_twice = BrokenHarness("ledger", _FilesTwice)
ledger_claims_what_is_not_readable = BrokenHarness("ledger", _ClaimsWhatIsNotReadable)

# -- log --------------------------------------------------------------------------------------------


class _Reorders(Broken):
    def read(self, domain: str, after: int = 0) -> Iterator[Any]:
        events = list(self.inner.read(domain, after))
        return iter([*events[1:2], *events[:1], *events[2:]])


class _SkipsAnEvent(Broken):
    def read(self, domain: str, after: int = 0) -> Iterator[Any]:
        return (event for event in self.inner.read(domain, after) if event.seq != 2)


class _TwoWriters(Broken):
    @contextmanager
    def writer(self, domain: str, *, wait: float = 30.0) -> Iterator[Any]:
        with self.inner.writer(domain, wait=wait) as writer:
            lines = writer
        yield lines


log_reorders = BrokenHarness("log", _Reorders)
log_skips_an_event = BrokenHarness("log", _SkipsAnEvent)
log_two_writers = BrokenHarness("log", _TwoWriters)

# -- policy -----------------------------------------------------------------------------------------


class _AllowsWhatItDoesNotKnow(Broken):
    def decide(self, action: str, input: Any) -> Any:
        decision = self.inner.decide(action, input)
        return decision._replace(allowed=True) if "unknown-action" in decision.rules else decision


class _IgnoresTheNarrowing(Broken):
    def decide(self, action: str, input: Any) -> Any:
        session = input.get("session")
        wide = {**session, "domains": None} if isinstance(session, dict) else session
        return self.inner.decide(action, {**input, "session": wide})


class _TakesFalseForNull(Broken):
    def decide(self, action: str, input: Any) -> Any:
        try:
            text = json.dumps(input).replace("false", "null")
        except (TypeError, ValueError):
            return self.inner.decide(action, input)
        return self.inner.decide(action, json.loads(text))


class _RemembersOldGrants(Broken):
    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self._answers: dict[str, Any] = {}

    def decide(self, action: str, input: Any) -> Any:
        key = repr((action, input))
        if key not in self._answers:
            self._answers[key] = self.inner.decide(action, input)
        return self._answers[key]


class _FiltersByDomainAlone(Broken):
    def read_filter(self, session: Any) -> ReadFilter:
        return ReadFilter(dict.fromkeys(self.inner.read_filter(session).domains, Label.restricted))


policy_allows_what_it_does_not_know = BrokenHarness("policy", _AllowsWhatItDoesNotKnow)
policy_ignores_the_narrowing = BrokenHarness("policy", _IgnoresTheNarrowing)
policy_takes_false_for_null = BrokenHarness("policy", _TakesFalseForNull)
policy_remembers_old_grants = BrokenHarness("policy", _RemembersOldGrants)
policy_filters_by_domain_alone = BrokenHarness("policy", _FiltersByDomainAlone)

# -- tools ------------------------------------------------------------------------------------------


class _AnswersForUnknownTools(Broken):
    def call(self, tool: str, config: Any, arguments: Any) -> Any:
        try:
            return self.inner.call(tool, config, arguments)
        except NotFoundError:
            return self.inner.call("echo", config, arguments)


class _AnswersForFailedTools(Broken):
    def call(self, tool: str, config: Any, arguments: Any) -> Any:
        try:
            return self.inner.call(tool, config, arguments)
        except AmemError:
            if tool != "broken":
                raise
            return self.inner.call("echo", config, arguments)


tools_answers_for_unknown_tools = BrokenHarness("tools", _AnswersForUnknownTools)
tools_answers_for_failed_tools = BrokenHarness("tools", _AnswersForFailedTools)

EXPECTED = {
    "store_loses_the_last_write": ["store:publish:current", "store:read:own-writes"],
    "store_ignores_compare_and_swap": ["store:publish:compare-and-swap"],
    "store_serves_what_is_staged": ["store:stage:invisible"],
    "store_lists_all_but_one": ["store:list:complete"],
    "store_keeps_history_through_an_erasure": ["store:erase:gone"],
    "store_forgets_tombstones": ["store:mark:asked"],
    "index_ignores_the_filter": ["index:filter:readable", "index:filter:closed"],
    "index_filters_after_the_limit": ["index:filter:inside-the-query"],
    "index_shows_a_write_later": ["index:apply:visible"],
    "index_takes_quotes_for_syntax": ["index:search:no-syntax"],
    "index_ranks_upside_down": ["index:rank:title-over-summary-over-body", "index:rank:scores-fall"],
    "ledger_grants_a_lease_twice": ["ledger:claim:held"],
    "ledger_ignores_the_fence": ["ledger:fence:stale"],
    "ledger_files_twice": ["ledger:file:once"],
    "ledger_claims_what_is_not_readable": ["ledger:claim:readable"],
    "log_reorders": ["log:append:numbers"],
    "log_skips_an_event": ["log:append:numbers"],
    "log_two_writers": ["log:writer:exclusive"],
    "policy_allows_what_it_does_not_know": ["policy:deny:unknown-action"],
    "policy_ignores_the_narrowing": ["policy:read:domain", "policy:write:domain"],
    "policy_takes_false_for_null": ["policy:write:label", "policy:session:owner"],
    "policy_remembers_old_grants": ["policy:grants:changed"],
    "policy_filters_by_domain_alone": ["policy:filter:ceiling", "policy:filter:agrees"],
    "tools_answers_for_unknown_tools": ["tools:call:unknown"],
    "tools_answers_for_failed_tools": ["tools:call:failure"],
}
