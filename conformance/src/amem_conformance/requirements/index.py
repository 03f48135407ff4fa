"""What is demanded of the Index port."""

from __future__ import annotations

from amem_conformance.manifest import Requirement

_CONTRACT = "contract 5: Index"
_PORT = "port: Index"
_PROCESSES = frozenset({"multi_process"})


def _requirement(id: str, source: str, behaviour: str, needs: frozenset[str] = frozenset()) -> Requirement:
    return Requirement(id=f"index:{id}", source=source, behaviour=behaviour, needs=needs)


REQUIREMENTS: list[Requirement] = [
    _requirement("search:finds-by-each-field", _CONTRACT, "title, summary, body, aliases and tags are searched"),
    _requirement("search:case-and-accents", _CONTRACT, "case and an accent's encoding make no difference"),
    _requirement("search:compatible-forms", _CONTRACT, "full-width and ligature forms are their plain letters"),
    _requirement("search:limit", _PORT, "no more than the limit is answered, and nothing below 1"),
    _requirement("search:no-syntax", "case: query-operators", "no character of a question is syntax"),
    _requirement("search:no-word", f"{_PORT}.search", "text with no word in it finds nothing"),
    _requirement("search:common-words", f"{_PORT}.search", "a question of common words alone is still asked"),
    _requirement("search:parts-of-a-term", f"{_PORT}.search", "the parts of a term with symbols are words"),
    _requirement("search:hyphen", f"{_PORT}.search", "a hyphenated word finds its parts, side by side and apart"),
    _requirement("search:scripts-without-spaces", "case: cjk", "two characters of a text without spaces find it"),
    _requirement("search:marks", f"{_PORT}.search", "a word with combining marks is one word"),
    _requirement("search:emoji", f"{_PORT}.search", "a word beside an emoji or another symbol is found"),
    _requirement("search:broken-text", "case: nul-and-surrogates", "answers are always valid UTF-8"),
    _requirement("search:long-text", "case: scale-limits", "the last line of a long body is searched"),
    _requirement("rank:title-over-summary-over-body", _CONTRACT, "title outranks summary, summary outranks body"),
    _requirement("rank:all-words-first", f"{_PORT}.search", "entries with all words come before those with some"),
    _requirement("rank:exact-term-first", "case: query-operators", "the entry with the exact term ranks first"),
    _requirement("rank:scores-fall", "port: Hit", "a score is positive and never rises from first to last"),
    _requirement("rank:ties-by-id", _PORT, "equal scores are ordered by id, whatever the limit"),
    _requirement("filter:readable", _CONTRACT, "only readable domains answer, each up to its own label"),
    _requirement("filter:closed", "port: ReadFilter", "a session that may read nothing finds nothing"),
    _requirement("filter:many-domains", "case: scale-limits", "a session may read thousands of domains"),
    _requirement("filter:domain-words", "case: domain-words", "an entry is visible in its own domain alone"),
    _requirement("filter:conditions", "port: Conditions", "each condition keeps what meets it and nothing else"),
    _requirement("filter:all-conditions", "port: Conditions", "of several conditions all hold"),
    _requirement("filter:active-by-default", "port: Conditions", "only active entries compete by default"),
    _requirement("filter:inside-the-query", _CONTRACT, "a limit counts what is readable, however it ranks"),
    _requirement("filter:naive-time", "case: timestamps", "a time without an offset is refused"),
    _requirement("as-of:newest-only", _PORT, "without as_of only the newest version answers"),
    _requirement("as-of:version-of-then", _PORT, "as_of answers from the version known then"),
    _requirement("as-of:any-order", _PORT, "versions may be applied in any order"),
    _requirement("as-of:clock-back", _PORT, "of the versions known the highest answers"),
    _requirement("as-of:higher-label", _PORT, "an earlier version carries the higher label"),
    _requirement("valid-at:span", _PORT, "an entry is true from its beginning up to its end"),
    _requirement("valid-at:with-as-of", _PORT, "as_of and valid_at combine"),
    _requirement("valid-at:ended", _PORT, "what was superseded because it ended answers for the time when it held"),
    _requirement("find:as-of", f"{_PORT}.find", "find gives the version that was known at an instant"),
    _requirement("times:by-instant", "case: timestamps", "order is by instant, whatever the offset"),
    _requirement("times:kept", "case: timestamps", "a span is answered as it was given"),
    _requirement("select:order", f"{_PORT}.select", "a listing is ordered by creation and id, or by id"),
    _requirement("select:limit", f"{_PORT}.select", "a listing keeps its limit"),
    _requirement("hit:card", "port: Hit", "a hit carries the card of its version"),
    _requirement("find:newest", f"{_PORT}.find", "find gives the newest version in any domain and status"),
    _requirement("find:exact-id", "case: ids-alike", "find gives none for an id that is not there"),
    _requirement("apply:visible", f"{_PORT}.apply", "what is applied is visible when it returns"),
    _requirement("apply:durable", f"{_PORT}.apply", "what is applied is there after a reopen"),
    _requirement("apply:again", f"{_PORT}.apply", "applying a version again replaces it"),
    _requirement("apply:whole", f"{_PORT}.apply", "a refused apply changes nothing"),
    _requirement("watermark:last", f"{_PORT}.watermark", "the watermark is that of the domain's last write"),
    _requirement("rebuild:same-answers", _CONTRACT, "a rebuild gives the same answers as the writes"),
    _requirement("rebuild:replaces", f"{_PORT}.rebuild", "a rebuild replaces its own domain and no other"),
    _requirement("rebuild:whole", f"{_PORT}.rebuild", "readers see the old state until the new one is whole"),
    _requirement("rebuild:failed", f"{_PORT}.rebuild", "a rebuild that fails leaves the old state"),
    _requirement("rebuild:write-in-the-middle", "case: background-overwrite", "writes during a rebuild survive it"),
    _requirement("rebuild:history", f"{_PORT}.rebuild", "a rebuild takes every version with its times"),
    _requirement("forget:gone", f"{_PORT}.forget", "a forgotten id is gone in every version"),
    _requirement("forget:keep", f"{_PORT}.forget", "what is kept of it answers in its place"),
    _requirement("forget:unknown", f"{_PORT}.forget", "forgetting what is not there changes nothing"),
    _requirement("forget:bytes", f"{_PORT}.forget", "True means that the bytes have left the files"),
    _requirement("damage:no-empty-answer", "contract 7", "damage is an error or a rebuild, never an empty answer"),
    _requirement("close:idempotent", f"{_PORT}.close", "close may be called twice; after it calls are errors"),
    _requirement("scale:thousands", "case: scale-limits", "thousands of entries are listed and searched"),
    _requirement("threads:readers-beside-a-writer", "case: parallel-search", "threads see what was acknowledged"),
    _requirement("threads:parallel-search", "case: parallel-search", "thirty searches at once answer alike"),
    _requirement("threads:parallel-writers", _PORT, "writers of different domains lose nothing"),
    _requirement("threads:parallel-rebuilds", _PORT, "two rebuilds at once leave one whole state"),
    _requirement("threads:close-during-use", f"{_PORT}.close", "closing ends calls with an answer or an error"),
    _requirement("processes:visible", f"{_PORT}.apply", "other processes see what was applied", _PROCESSES),
    _requirement("processes:writers", f"{_PORT}.apply", "processes that write at once lose nothing", _PROCESSES),
    _requirement("property:as-the-obvious-one", _CONTRACT, "any history is answered as by the reference index"),
    _requirement("property:rebuild-as-writes", _CONTRACT, "any history is rebuilt to the same answers"),
    _requirement("property:any-text", _CONTRACT, "any text can be asked and kept"),
]
