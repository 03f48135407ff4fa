"""Step 7: what is derived is deleted and comes back from the record and the log alone."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING

from amem_core.domain.plain import plain
from amem_core.memory import Memory
from amem_launcher.commands.demo.evidence import Rebuilt
from amem_launcher.commands.demo.stage import DOMAIN, hold

if TYPE_CHECKING:
    from amem_launcher.commands.demo.material import Material
    from amem_launcher.commands.demo.stage import Stage

_MAGIC = b"SQLite format 3\x00"
_BESIDE = ("-wal", "-shm", "-journal")
_LIMIT = 20


def rebuild(stage: Stage, material: Material) -> Rebuilt:
    """Ask, delete, rebuild, ask again."""
    before = answers(stage.root, material)
    deleted = delete_databases(stage.root)
    hold(deleted, "the root holds no SQLite file to delete")
    with Memory.open(stage.root) as memory, memory.session(author="owner") as owner:
        rebuilt = owner.reindex()[0]
    after = answers(stage.root, material)
    changed = [question for question, answer in before.items() if after.get(question) != answer]
    hold(before.keys() == after.keys() and not changed, f"answered otherwise than before: {', '.join(changed)}")
    everything = "\n".join(after.values()).encode()
    return Rebuilt(
        deleted=tuple(deleted),
        entries=rebuilt.entries,
        versions=rebuilt.versions,
        tasks=rebuilt.tasks,
        answers=len(after),
        size=len(everything),
        digest=hashlib.sha256(everything).hexdigest(),
    )


def answers(root: str, material: Material) -> dict[str, str]:
    """Return what the memory answers, as JSON, by question."""
    found: dict[str, str] = {}

    def keep(question: str, answer: object) -> None:
        found[question] = json.dumps(plain(answer), ensure_ascii=False)

    with Memory.open(root) as memory, memory.session(author="owner") as owner:
        ids: dict[str, None] = {}
        for query in (*(topic.title for topic in material.topics), "summed up", "handoff decision", "no-such-word"):
            result = owner.search(query, limit=_LIMIT)
            keep(f"search {query}", result)
            ids |= dict.fromkeys(hit.id for hit in result.hits)
        for id in ids:
            keep(f"get {id}", owner.get(id))
        tasks = owner.tasks(domain=DOMAIN)
        keep("task list", tasks)
        for node in tasks:
            keep(f"task show {node.task.id}", owner.task(node.task.id))
        keep("t0", owner.t0())
    return found


def delete_databases(root: str) -> list[str]:
    """Delete every SQLite file of the root; return their paths below it."""
    deleted: list[str] = []
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                found = file.read(len(_MAGIC)) == _MAGIC
            if found:
                doomed = [path, *(path + ending for ending in _BESIDE if os.path.exists(path + ending))]
                for one in doomed:
                    os.remove(one)
                deleted += [os.path.relpath(one, root) for one in doomed]
    return sorted(deleted)
