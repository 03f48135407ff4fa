"""A session's residual, a caller's conditions and the words of a question as queries of Tantivy.

Queries are built of terms, never parsed from text. What they let through is asked of the catalog again,
so that one that lets too much through (a tag that is longer than a mark may be) costs time and no more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from amem_core.domain.labels import Label, Status
from amem_index._filters import ONLY_ACTIVE
from amem_index._rows import line, micros
from amem_index.analysis import clean
from amem_index.tantivy._engine import FIRST, LAST, FieldType, Occur, Query, mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from amem_core.domain.queries import Query as Asked
    from amem_index.tantivy._text import Term, Tier

# The automaton of a longer beginning may be too large for the engine.
_LONGEST_START = 60


def words_query(schema: Any, pool: str, tier: Tier, narrowed: Iterable[Query]) -> Query:
    """Return the query for what ``pool`` holds of a demand, and that meets all of ``narrowed``."""
    occur = Occur.Must if tier.all else Occur.Should
    asked = [(occur, _term(schema, pool, term)) for term in tier.terms]
    needed = [(Occur.Must, _unranked(query)) for query in narrowed]
    if not needed:
        return asked[0][1] if len(asked) == 1 else Query.boolean_query(asked)
    if tier.all:
        return Query.boolean_query([*asked, *needed])
    return Query.boolean_query([(Occur.Must, Query.boolean_query(asked)), *needed])


def narrowing(
    schema: Any, asked: Asked, domain: str, *, competing: bool, rows: Sequence[int] | None = None
) -> list[Query]:
    """Return what a document of ``domain`` must meet; ``competing`` says that it is the newest version and active.

    ``rows`` are the only ones that can, as far as that is known.
    """
    only = asked.conditions
    found: list[Query] = []
    ceiling = asked.readable.domains[domain]
    if only.highest_label is not None:
        ceiling = min(ceiling, only.highest_label)
    if ceiling < max(Label):
        found.append(_marked(schema, [f"l:{int(ceiling)}"]))
    if not competing:
        found += _standing(schema, asked)
    found += [
        _marked(schema, [mark(kind, clean(value) if isinstance(value, str) else int(value)) for value in values])
        for kind, values in (("y", only.types), ("t", only.tiers), ("a", only.authors))
        if values
    ]
    found += [_marked(schema, [mark("g", line(tag)[1:-1])]) for tag in only.tags]
    if only.any_tags:
        found.append(_marked(schema, [mark("g", line(tag)[1:-1]) for tag in only.any_tags]))
    if only.always_load is not None:
        found.append(_marked(schema, [f"w:{int(only.always_load)}"]))
    if rows is not None:
        found.append(Query.term_set_query(schema, "row", rows) if rows else Query.empty_query())
    return found + _spans(schema, asked)


def _standing(schema: Any, asked: Asked) -> list[Query]:
    """Return what picks the version that answers, and its status."""
    found: list[Query] = []
    if asked.as_of is None:
        found.append(_marked(schema, ["n"]))
    else:
        at = micros(asked.as_of, "as_of")
        found += [_between(schema, "known_from", FIRST, at), _between(schema, "known_until", at + 1, LAST)]
    statuses = asked.conditions.statuses
    if asked.valid_at is not None and statuses == ONLY_ACTIVE:
        # Which of the superseded ones count, the catalog says.
        statuses = (Status.active, Status.superseded)
    if statuses:
        found.append(_marked(schema, [f"s:{status.value}" for status in statuses]))
    return found


def _spans(schema: Any, asked: Asked) -> list[Query]:
    only = asked.conditions
    found: list[Query] = []
    if only.created_from is not None:
        found.append(_between(schema, "created", micros(only.created_from, "created_from"), LAST))
    if only.created_until is not None:
        found.append(_between(schema, "created", FIRST, micros(only.created_until, "created_until") - 1))
    if asked.valid_at is not None:
        at = micros(asked.valid_at, "valid_at")
        found += [_between(schema, "valid_from", FIRST, at), _between(schema, "valid_until", at + 1, LAST)]
    return found


def _term(schema: Any, pool: str, term: Term) -> Query:
    first, *others = term.words
    if term.begins:
        return _begins(schema, pool, first)
    if others:
        return Query.phrase_query(schema, pool, [first, *others])
    return Query.term_query(schema, pool, first, "freq")


def _marked(schema: Any, marks: list[str]) -> Query:
    """Return the query for documents that have one of the marks."""
    if len(marks) == 1:
        return Query.term_query(schema, "marks", marks[0], "basic")
    return Query.term_set_query(schema, "marks", marks)


def _begins(schema: Any, field: str, beginning: str) -> Query:
    """Return the query for documents with a term that begins so. Whatever could be syntax goes by its number."""
    plain = re.sub(r"[^0-9A-Za-z]", lambda character: rf"\x{{{ord(character[0]):x}}}", beginning[:_LONGEST_START])
    return Query.regex_query(schema, field, plain + ".*")


def _between(schema: Any, field: str, first: int, last: int) -> Query:
    return Query.range_query(schema, field, FieldType.Integer, max(first, FIRST), min(last, LAST))


def _unranked(query: Query) -> Query:
    return Query.const_score_query(query, 0.0)
