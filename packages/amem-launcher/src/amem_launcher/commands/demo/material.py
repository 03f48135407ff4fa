"""The real input that the demo plays on: a folder of Markdown, and what in it can be asked about."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass

from amem_core.errors import FormatError, InvalidError, NotFoundError
from amem_core.format.markdown import sections
from amem_core.services.ingest import ENDINGS

USUAL = "docs"
DISTRIBUTION = "amem"
_FEWEST_WORDS, _MOST_WORDS = 2, 10
_HINT = "name a folder of Markdown files: amem demo PATH"


@dataclass(frozen=True, slots=True)
class Topic:
    """A section that can be asked for by its title; ``source`` is that of the entry that ingest makes of it."""

    title: str
    source: str


@dataclass(frozen=True, slots=True)
class Material:
    """What the demo ingests. ``topics`` are two different sections, or one twice when there is but one."""

    name: str
    path: str
    files: tuple[str, ...]
    topics: tuple[Topic, Topic]


def collect(given: str | None, home: str) -> Material:
    """Return the folder or file ``given``, else ``./docs``, else the installed description of ``amem``.

    The description is written into ``home``, since ingest reads files.

    Raises:
        NotFoundError: there is no such folder, or it holds no Markdown with text in it.
    """
    if given is not None:
        name, path = given, os.path.realpath(given)
    elif _files(os.path.realpath(USUAL)):
        name, path = USUAL, os.path.realpath(USUAL)
    else:
        name, path = f"the description of {DISTRIBUTION}", _description(home)
    files = _files(path)
    found = [topic for file in files for topic in _topics(file)]
    if not found:
        message = f"{name} holds no Markdown file with text in it" if os.path.exists(path) else f"there is no {name}"
        raise NotFoundError(message, hint=_HINT)
    best = _askable(found)
    return Material(name, path, tuple(files), (best[0], best[min(1, len(best) - 1)]))


def _files(path: str) -> list[str]:
    """Return the Markdown files that ingest takes from ``path``, sorted."""
    if os.path.isfile(path):
        return [path]
    found: list[str] = []
    for directory, names, files in os.walk(path):
        names[:] = [name for name in names if not name.startswith(".")]
        found += [os.path.join(directory, n) for n in files if n.lower().endswith(ENDINGS) and not n.startswith(".")]
    return sorted(found)


def _description(home: str) -> str:
    """Write what the installed distribution says of itself to a folder and return its path.

    Raises:
        NotFoundError: the distribution is not installed, or says nothing.
    """
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        told = metadata(DISTRIBUTION)
        text = told.json.get("description") or ""
    except PackageNotFoundError:
        text = ""
    if not isinstance(text, str) or not text.strip():
        message = f"there is no folder {USUAL} here, and no installed {DISTRIBUTION} whose description could stand in"
        raise NotFoundError(message, hint=_HINT)
    folder = os.path.join(home, "description")
    os.mkdir(folder)
    with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
        file.write(text)
    return folder


def _topics(path: str) -> list[Topic]:
    """Return the sections of one file; one that cannot be read has none, as ingest will report."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            found = sections(file.read(), name=os.path.basename(path))
    except (OSError, ValueError, FormatError):
        return []
    return [Topic(section.title, f"file:{path}#{section.anchor}") for section in found if section.body.strip()]


def _askable(found: list[Topic]) -> list[Topic]:
    """Return the topics in the order in which they are best asked for: titles that stand once and have some words."""
    times = Counter(topic.title for topic in found)

    def worse(topic: Topic) -> tuple[bool, bool, bool]:
        words = topic.title.split()
        return (
            not any(character.isalnum() for character in topic.title),
            times[topic.title] > 1,
            not _FEWEST_WORDS <= len(words) <= _MOST_WORDS,
        )

    best = sorted(found, key=worse)
    if not any(character.isalnum() for character in best[0].title):
        message = "no section of the material has a title with a word in it"
        raise InvalidError(message, hint=_HINT)
    # The second comes from another file where there is one: the session that goes on has new ground before it.
    first = best[0]
    rest = [topic for topic in best[1:] if worse(topic) == worse(first)]
    elsewhere = [topic for topic in rest if topic.source.partition("#")[0] != first.source.partition("#")[0]]
    return [first, *(elsewhere or rest)]
