"""The parts of a text that answer a question, inside a number of tokens."""

from __future__ import annotations

import re

from amem_core.services.tokens import CHARACTERS_PER_TOKEN, count_tokens

_WORD = re.compile(r"\w+")
_COMMON = frozenset(
    {
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "how",
        "i",
        "if",
        "in",
        "is",
        "it",
        "of",
        "on",
        "or",
        "our",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "you",
        "your",
    }
)
CUT = "[…]"


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text, case folded, without the commonest ones unless there are no others."""
    found = frozenset(word.casefold() for word in _WORD.findall(text))
    return found - _COMMON or found


def best_passages(text: str, question: str, tokens: int) -> str:
    """Return ``text`` if it costs at most ``tokens``, else its paragraphs that answer best, in their order, with cuts marked."""
    text = text.strip()
    if count_tokens(text) <= tokens:
        return text
    wanted = words_of(question)
    paragraphs = [part for part in re.split(r"\n\s*\n", text) if part.strip()]
    ranked = sorted(
        range(len(paragraphs)),
        key=lambda n: (-len(wanted & words_of(paragraphs[n])), n),
    )
    chosen: set[int] = set()
    left = tokens
    for number in ranked:
        cost = count_tokens(paragraphs[number]) + 2 * count_tokens(CUT) + 1
        if cost <= left:
            chosen.add(number)
            left -= cost
    if not chosen:
        return _around(paragraphs[ranked[0]], wanted, tokens)
    return _joined(paragraphs, chosen)


def _joined(paragraphs: list[str], chosen: set[int]) -> str:
    parts: list[str] = []
    for number, paragraph in enumerate(paragraphs):
        if number in chosen:
            parts.append(paragraph)
        elif not parts or parts[-1] != CUT:
            parts.append(CUT)
    return "\n\n".join(parts)


def _around(paragraph: str, wanted: frozenset[str], tokens: int) -> str:
    """Return the part of an overlong paragraph that begins shortly before its first wanted word."""
    first = next((match.start() for match in _WORD.finditer(paragraph) if match[0].casefold() in wanted), 0)
    room = max(0, tokens - 2 * count_tokens(CUT))
    start = max(0, first - room)
    part = paragraph[start : start + room * CHARACTERS_PER_TOKEN]
    while part and count_tokens(part) > room:
        part = part[: len(part) * 3 // 4]
    return f"{CUT if start else ''}{part}{CUT}"
