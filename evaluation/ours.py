"""The same questions asked of amem: a root, a domain for each conversation, an entry for each item, ``search``."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby

from amem_core import Draft, Memory, Session
from evaluation.data import DataSet, Item

_BATCH = 500
_DEEPEST = 100
_LONGEST_SUMMARY = 300


class Asked:
    """A data set in a root. ``names`` gives the item's id for the entry's."""

    def __init__(self, session: Session, names: dict[str, str]) -> None:
        self.session = session
        self.names = names

    def ranked(self, conversation: str, question: str) -> list[str]:
        """Return the ids of the items that ``search`` finds, best first."""
        result = self.session.search(question, domain=domain_of(conversation), limit=_DEEPEST)
        return [self.names[hit.id] for hit in result.hits]


@contextmanager
def remembered(data: DataSet, configuration: str = "") -> Iterator[Asked]:
    """Write a data set into a fresh root that ``configuration`` (the text of an amem.toml) sets up."""
    with tempfile.TemporaryDirectory() as top:
        root = os.path.join(top, "root")
        for conversation in data.corpus:
            Memory.init(root, domain=domain_of(conversation))
        if configuration:
            with open(os.path.join(root, "amem.toml"), "w", encoding="utf-8") as file:
                file.write(configuration)
        with Memory.open(root) as memory:
            names: dict[str, str] = {}
            for items in data.corpus.values():
                for author, group in groupby(items, key=author_of):
                    with memory.session(author=author) as writer:
                        for batch in _batches(list(group)):
                            answers = writer.write_many([_draft(item) for item in batch])
                            names.update({answer.id: item.id for answer, item in zip(answers, batch, strict=True)})
            with memory.session(author="owner") as session:
                yield Asked(session, names)


def author_of(item: Item) -> str:
    """Return who wrote an item, as a session of that name."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", item.speaker or "").strip("-")
    return f"session:{name}" if name else "owner"


def domain_of(conversation: str) -> str:
    """Return the domain that keeps a conversation."""
    return re.sub(r"[^a-z0-9]+", "-", conversation.lower()).strip("-")


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for first in range(0, len(items), _BATCH):
        yield items[first : first + _BATCH]


def _draft(item: Item) -> Draft:
    """Return an item as an agent would write it: who and when in the title, and the date as when it was true."""
    summary = " ".join(item.text.split())[:_LONGEST_SUMMARY]
    said = "" if item.session is None else f"/S{item.session}"
    return Draft(
        domain=domain_of(item.conversation),
        type="fact",
        title=" ".join(filter(None, (item.speaker, item.date))) or summary[:80] or item.id,
        summary=summary or item.id,
        body=item.text,
        source=(f"transcript:{item.conversation}{said}#{re.sub(r'[^A-Za-z0-9]+', '-', item.id)}",),
        valid_from=_date(item.date),
    )


def _date(text: str | None) -> datetime | None:
    if text is None:
        return None
    when = datetime.fromisoformat(text)
    return when if when.tzinfo else when.replace(tzinfo=UTC)
