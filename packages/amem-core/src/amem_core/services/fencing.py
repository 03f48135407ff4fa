"""Marking what is served as data, so that a model can tell it from an instruction and nothing stored can end the mark.

The closing marker carries a hash of the text that it closes, and no text can hold its own hash. What
looks like a marker inside the text is broken up all the same, for readers that look at the first
word only. The same text is fenced by the same bytes.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amem_core.domain.entries import Entry
    from amem_core.domain.queries import Hit

_MARKER = re.compile(r"\[(/?)(amem:data)", re.IGNORECASE)
_ANY = re.compile(r"\[amem:data ([0-9a-f]{16})[^\]\n]*\]\n.*?\n\[/amem:data \1\]\n?", re.DOTALL)
_KEY_DIGITS = 16


def fence(attributes: Mapping[str, str], text: str) -> str:
    """Return ``text`` between markers that carry ``attributes`` and a key of the text."""
    inner = _MARKER.sub(r"[\1 \2", text)
    shown = " ".join(f"{name}={_value(value)}" for name, value in attributes.items() if value)
    key = hashlib.sha256(f"{shown}\n{inner}".encode()).hexdigest()[:_KEY_DIGITS]
    return f"[amem:data {key} {shown}]\n{inner}\n[/amem:data {key}]"


def unfenced(text: str) -> str:
    """Return ``text`` without the fenced blocks in it: what is not amem's own words coming back."""
    return _ANY.sub("", text)


def attributes_of(entry: Entry) -> dict[str, str]:
    """Return what a fence says of an entry: id, version, type, dates, source, label and tier."""
    return {
        "id": entry.id,
        "version": str(entry.version),
        "type": entry.type,
        "domain": entry.domain,
        "date": entry.updated.date().isoformat(),
        "valid_from": entry.valid_from.isoformat() if entry.valid_from else "",
        "valid_until": entry.valid_until.isoformat() if entry.valid_until else "",
        "author": entry.author,
        "label": str(entry.classification),
        "tier": str(entry.trust_tier),
        "source": ",".join(entry.source),
    }


def fence_entry(
    entry: Entry, *, body: str | None = None, notices: Sequence[str] = (), masks: Sequence[str] = ()
) -> str:
    """Return title, summary and body (or ``body`` in its stead) of an entry, fenced as data.

    ``masks`` name the clocks that ran, so that a reader knows the text for what stood or held then.
    """
    text = entry.body if body is None else body
    parts = [entry.title, *(f"note: {notice}" for notice in notices), entry.summary, "", text]
    return fence({**attributes_of(entry), "masks": ", ".join(masks)}, "\n".join(parts).rstrip())


def fence_hits(hits: Sequence[Hit]) -> str:
    """Return the cards of several hits, one line each, fenced as data in one block."""
    lines = [f"{hit.id} ({', '.join(_told(hit))}) {hit.title}: {hit.summary}" for hit in hits]
    return fence({"hits": str(len(hits))}, "\n".join(lines))


def _told(hit: Hit) -> list[str]:
    told = [hit.type, hit.updated.date().isoformat(), str(hit.label), str(hit.tier)]
    return [*told, f"from {hit.source[0]}"] if hit.source else told


def _value(value: str) -> str:
    """Quote an attribute's value where it could end the marker or look like another attribute."""
    if re.fullmatch(r"[\w.:/,+-]+", value):
        return value
    cleaned = re.sub(r"[\]\[\"\s]+", " ", value).strip()
    return f'"{cleaned}"'
