"""The filter expression of a search: text that a person or a model writes, turned into ``Conditions``.

The grammar is ``<field> <operator> <value>``, joined by ``and``. lark and pyparsing were looked at:
either takes longer to import than a whole search takes, for a grammar of six tokens, and their errors
speak of grammar rules where ours must name the field, the column and what may stand there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, NoReturn, TypeVar

from amem_core.domain.labels import Label, Status, Tier
from amem_core.domain.names import check_author, check_type
from amem_core.domain.plain import parse_moment
from amem_core.domain.queries import Conditions
from amem_core.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LONGEST = 4_000
# What may follow each field. A set-like field holds one value or one of a list.
OPERATORS: dict[str, tuple[str, ...]] = {
    "type": ("=", "in"),
    "tag": ("=", "in"),
    "author": ("=", "in"),
    "status": ("=", "in"),
    "tier": ("=", "in", ">=", "<=", ">", "<"),
    "label": ("=", "<=", "<"),
    "created": ("=", ">=", "<=", ">", "<"),
    "source": ("=",),
    "always_load": ("=",),
}
_EXAMPLE = "type = decision and tag in (a, b) and created >= 2026-01-01"
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<operator>>=|<=|!=|==|=|<|>)
      | (?P<mark>[(),])
      | (?P<word>[^\s"'(),=<>!]+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MICROSECOND = timedelta(microseconds=1)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Token:
    """One token; ``column`` counts characters from 1."""

    kind: str
    text: str
    column: int


@dataclass(frozen=True, slots=True)
class _Clause:
    """One comparison."""

    field: str
    operator: str
    values: tuple[_Token, ...]
    column: int


def parse_filter(text: str) -> Conditions:
    """Return the conditions that ``text`` states; empty text states none.

    Fields are ``type``, ``tag``, ``author``, ``status``, ``tier``, ``label``, ``created``, ``source``
    (the beginning of one) and ``always_load``. Values are words or quoted text; ``in`` takes a list in
    parentheses. A date in ``created`` is that whole day in UTC. Each field may be used once,
    but ``created`` once for each end and ``tag =`` once for each tag. Without ``status`` only active entries answer.

    Raises:
        InvalidError: the expression breaks the grammar; the message says at which column.
    """
    if len(text) > LONGEST:
        message = f"the filter has {len(text)} characters; at most {LONGEST} are read"
        raise InvalidError(message, hint="narrow by fewer values")
    tokens = _tokens(text)
    if len(tokens) == 1:
        return Conditions()
    return _Conditions(_clauses(tokens)).build()


def _fail(column: int, problem: str, hint: str) -> NoReturn:
    message = f"filter, column {column}: {problem}"
    raise InvalidError(message, hint=hint)


def _tokens(text: str) -> list[_Token]:
    """Cut ``text`` into tokens, the last of which is the end."""
    found: list[_Token] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            position += len(text[position:end]) - len(text[position:end].lstrip())
            _fail(position + 1, *_stray(text[position]))
        kind = match.lastgroup
        start = match.start(kind)
        found.append(_Token(kind, match.group(kind), start + 1))
        position = match.end()
    found.append(_Token("end", "", end + 1))
    return found


def _stray(character: str) -> tuple[str, str]:
    if character in "\"'":
        return f"the text that {character} opens is never closed", f"close it with {character}"
    return f"{character!r} cannot stand here", f"such as: {_EXAMPLE}"


def _clauses(tokens: Sequence[_Token]) -> list[_Clause]:
    """Read ``clause (and clause)*``."""
    clauses: list[_Clause] = []
    place = 0
    while True:
        clause, place = _clause(tokens, place)
        clauses.append(clause)
        token = tokens[place]
        if token.kind == "end":
            return clauses
        _expect_and(token)
        place += 1


def _expect_and(token: _Token) -> None:
    word = token.text.lower() if token.kind == "word" else token.text
    if word == "and":
        return
    if word in {"or", "not"}:
        _fail(token.column, f"{token.text!r} is not supported: only 'and' joins conditions", _instead_of(word))
    _fail(token.column, f"expected 'and' or the end, found {token.text!r}", "join conditions with 'and'")


def _instead_of(word: str) -> str:
    if word == "or":
        return "for one of several values write: type in (a, b); for other alternatives search twice"
    return "state what must hold, such as: status = active; exclusion is not supported"


def _clause(tokens: Sequence[_Token], place: int) -> tuple[_Clause, int]:
    """Read one comparison; return it and where the next token stands."""
    first = tokens[place]
    fields = f"fields: {', '.join(OPERATORS)}"
    if first.kind == "end":
        _fail(first.column, "a condition is missing here", f"such as: {_EXAMPLE}")
    if first.kind == "mark" and first.text == "(":
        _fail(
            first.column,
            "grouping with parentheses is not supported",
            "write the conditions one after the other, joined by 'and'",
        )
    if first.kind != "word":
        _fail(first.column, f"expected a field, found {first.text!r}", fields)
    field = first.text.lower()
    if field not in OPERATORS:
        if field in {"or", "not"}:
            _fail(first.column, f"{first.text!r} is not supported: only 'and' joins conditions", _instead_of(field))
        _fail(first.column, f"there is no field {first.text!r}", fields)
    operator = _operator(field, tokens[place + 1])
    if operator == "in":
        values, after = _list(tokens, place + 2)
    else:
        values, after = (_value(tokens[place + 2]),), place + 3
    return _Clause(field, operator, values, first.column), after


def _operator(field: str, token: _Token) -> str:
    allowed = OPERATORS[field]
    hint = f"{field} takes: {' '.join(allowed)}"
    operator = token.text.lower() if token.kind == "word" else token.text
    operator = "=" if operator == "==" else operator
    if token.kind == "end":
        _fail(token.column, f"{field!r} is compared with nothing", hint)
    if operator in {"not", "!="}:
        _fail(token.column, f"{token.text!r} is not supported: exclusion cannot be asked", hint)
    if operator not in allowed or token.kind == "text":
        _fail(token.column, f"{token.text!r} cannot follow {field!r}", hint)
    return operator


def _value(token: _Token) -> _Token:
    if token.kind == "word":
        return token
    if token.kind == "text":
        return _Token("text", _ESCAPE.sub(r"\1", token.text[1:-1]), token.column)
    if token.text == "(":
        _fail(token.column, "a list follows 'in', not '='", "write: tag in (a, b)")
    _fail(
        token.column,
        f"expected a value, found {token.text!r}" if token.text else "a value is missing here",
        f"such as: {_EXAMPLE}",
    )


def _list(tokens: Sequence[_Token], place: int) -> tuple[tuple[_Token, ...], int]:
    """Read ``( value (, value)* )``; return the values and where the next token stands."""
    token = tokens[place]
    if token.text != "(" or token.kind != "mark":
        _fail(token.column, "'in' needs a list in parentheses", "write: tag in (a, b)")
    values: list[_Token] = []
    while True:
        values.append(_value(tokens[place + 1]))
        place += 2
        mark = tokens[place]
        if mark.kind == "mark" and mark.text == ")":
            return tuple(values), place + 1
        if mark.kind != "mark" or mark.text != ",":
            found = repr(mark.text) if mark.text else "the end"
            _fail(mark.column, f"expected ',' or ')', found {found}", "write: tag in (a, b)")


class _Conditions:
    """The clauses on their way to ``Conditions``, one method for each kind of field."""

    def __init__(self, clauses: Sequence[_Clause]) -> None:
        self._clauses = clauses
        self._types: tuple[str, ...] = ()
        self._tags: tuple[str, ...] = ()
        self._any_tags: tuple[str, ...] = ()
        self._authors: tuple[str, ...] = ()
        self._statuses: tuple[Status, ...] = (Status.active,)
        self._tiers: tuple[Tier, ...] = ()
        self._label: Label | None = None
        self._from: datetime | None = None
        self._until: datetime | None = None
        self._source: str | None = None
        self._always: bool | None = None

    def build(self) -> Conditions:
        """Take in every clause and return what they come to."""
        seen: set[str] = set()
        for clause in self._clauses:
            said = _said(clause)
            if said & seen:
                several = f"for one of several values write: {clause.field} in (a, b)"
                hint = several if "in" in OPERATORS[clause.field] else "leave one out"
                _fail(clause.column, f"{clause.field!r} is restricted twice", hint)
            seen |= said
            getattr(self, f"_take_{clause.field}")(clause)
        return Conditions(
            types=self._types,
            statuses=self._statuses,
            tiers=self._tiers,
            authors=self._authors,
            tags=self._tags,
            any_tags=self._any_tags,
            highest_label=self._label,
            created_from=self._from,
            created_until=self._until,
            always_load=self._always,
            source_prefix=self._source,
        )

    def _take_type(self, clause: _Clause) -> None:
        self._types = tuple(_read(value, check_type) for value in clause.values)

    def _take_tag(self, clause: _Clause) -> None:
        values = tuple(_read(value, _filled) for value in clause.values)
        if clause.operator == "=":
            self._tags = (*self._tags, *values)
        else:
            self._any_tags = values

    def _take_author(self, clause: _Clause) -> None:
        self._authors = tuple(_read(value, check_author) for value in clause.values)

    def _take_status(self, clause: _Clause) -> None:
        self._statuses = tuple(_read(value, _status) for value in clause.values)

    def _take_tier(self, clause: _Clause) -> None:
        named = [_read(value, lambda word: Tier.parse(word.lower())) for value in clause.values]
        limit = named[0]
        tests: dict[str, Callable[[Tier], bool]] = {
            "=": lambda tier: tier == limit,
            "in": lambda tier: tier in named,
            ">=": lambda tier: tier >= limit,
            "<=": lambda tier: tier <= limit,
            ">": lambda tier: tier > limit,
            "<": lambda tier: tier < limit,
        }
        self._tiers = tuple(tier for tier in Tier if tests[clause.operator](tier))
        if not self._tiers:
            _fail(
                clause.column,
                f"no tier is {clause.operator} {limit}",
                f"tiers, lowest first: {', '.join(Tier.__members__)}",
            )

    def _take_label(self, clause: _Clause) -> None:
        label = _read(clause.values[0], lambda word: Label.parse(word.lower()))
        labels = f"labels, lowest first: {', '.join(Label.__members__)}"
        if clause.operator == "=" and label is not Label.public:
            _fail(
                clause.column,
                f"label = {label} cannot be asked: a search bounds the label from above",
                f"write: label <= {label}",
            )
        if clause.operator == "<":
            if label is Label.public:
                _fail(clause.column, "no label is < public", labels)
            label = Label(label - 1)
        self._label = label

    def _take_created(self, clause: _Clause) -> None:
        first, after = _read(clause.values[0], _span)
        if clause.operator in {"=", ">="}:
            self._from = first
        if clause.operator == ">":
            self._from = after
        if clause.operator in {"=", "<="}:
            self._until = after
        if clause.operator == "<":
            self._until = first

    def _take_source(self, clause: _Clause) -> None:
        self._source = _read(clause.values[0], _filled)

    def _take_always_load(self, clause: _Clause) -> None:
        self._always = _read(clause.values[0], _truth)


def _said(clause: _Clause) -> set[str]:
    """Return what a clause says that may be said once only."""
    if clause.field == "created":
        ends = {"=": {"from", "until"}, ">": {"from"}, ">=": {"from"}, "<": {"until"}, "<=": {"until"}}
        return ends[clause.operator]
    if clause.field == "tag":
        # An entry has many tags, so it can be asked to have this one and that one.
        return {"tag"} if clause.operator == "in" else set()
    return {clause.field}


def _read(value: _Token, reader: Callable[[str], _T]) -> _T:
    """Return what ``reader`` makes of a value; its refusal gets the column."""
    try:
        return reader(value.text)
    except InvalidError as error:
        _fail(value.column, str(error), error.hint)


def _filled(word: str) -> str:
    if word.strip():
        return word
    message = "the value is empty"
    raise InvalidError(message, hint=f"such as: {_EXAMPLE}")


def _status(word: str) -> Status:
    if word.lower() in Status.__members__:
        return Status[word.lower()]
    message = f"{word!r} is not a status"
    raise InvalidError(message, hint=f"one of: {', '.join(Status.__members__)}")


def _truth(word: str) -> bool:
    if word.lower() in {"true", "false"}:
        return word.lower() == "true"
    message = f"{word!r} is neither true nor false"
    raise InvalidError(message, hint="write: always_load = true")


def _span(word: str) -> tuple[datetime, datetime]:
    """Return the first moment that ``word`` names and the first one after it, in UTC."""
    value = parse_moment(word)
    try:
        if isinstance(value, datetime):
            return value.astimezone(UTC), value.astimezone(UTC) + _MICROSECOND
        first = datetime.combine(value, time.min, UTC)
        return first, first + timedelta(days=1)
    except OverflowError as error:
        message = f"{word!r} is at the end of the calendar"
        raise InvalidError(message, hint="write a time between the years 1 and 9998") from error
