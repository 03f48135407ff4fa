"""What the tests of bundles stand on: bundles and records as bytes, and hands that tamper with them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amem_core import Draft, Memory
from amem_core.testing import CountingIds, FrozenClock

LONG = "The staging box listens on port 8080, behind the proxy."


def fact(title: str = "A fact", summary: str = "it is so", **fields: Any) -> Draft:
    """Return a draft of a fact."""
    return Draft(domain="notes", type="fact", title=title, summary=summary, **fields)


class NamedIds(CountingIds):
    """Ids that two roots do not have in common."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def new(self, prefix: str, now: Any) -> str:
        """Return the next id."""
        return super().new(f"{prefix}{self._name}", now)


def tree(top: str) -> dict[str, bytes]:
    """Return every file below ``top`` by its path."""
    found = {}
    for directory, _, names in os.walk(top):
        for name in names:
            path = os.path.join(directory, name)
            found[os.path.relpath(path, top)] = Path(path).read_bytes()
    return found


def kept(root: str) -> dict[str, bytes]:
    """Return what a root keeps: its record and its log, whether or not a log without events has a file yet."""
    keeping = ("record", os.path.join("state", "log"))
    return {name: data for name, data in tree(root).items() if data and name.startswith(keeping)}


def edit(path: str, old: str, new: str) -> None:
    """Replace text in a file that holds it."""
    text = Path(path).read_text(encoding="utf-8")
    assert old in text
    Path(path).write_text(text.replace(old, new), encoding="utf-8")


def tamper(bundle: str, name: str, change: Callable[[str], str]) -> None:
    """Change a file of a bundle and make the manifest's digest of it right again."""
    path = Path(bundle, name)
    before = path.read_bytes()
    path.write_bytes(change(before.decode()).encode())
    manifest = Path(bundle, "manifest.yaml")
    old, new = (hashlib.sha256(data).hexdigest() for data in (before, path.read_bytes()))
    manifest.write_text(manifest.read_text().replace(old, new))


def entry_files(bundle: str) -> list[str]:
    """Return the paths of a bundle's entries."""
    top = os.path.join(bundle, "entries")
    return [os.path.join(top, name) for name in sorted(os.listdir(top))]


def without_marks(bundle: str) -> None:
    """Make of a bundle what an amem that knew no marks would have written."""
    for name in os.listdir(bundle):
        if name not in {"entries", "manifest.yaml"}:
            os.unlink(os.path.join(bundle, name))
    manifest = Path(bundle, "manifest.yaml")
    manifest.write_text(re.sub(r"marks:\n(  - \{kind: .*\n)+", "", manifest.read_text()))


def marks_alone(bundle: str) -> str:
    """Take the entries out of a bundle."""
    manifest = Path(bundle, "manifest.yaml")
    head = manifest.read_text().partition("\nentries:\n")[0]
    highest = re.search(r"tombstones.yaml,.* classification: (\w+)", head)
    assert highest is not None
    head = re.sub("highest_label: .*", f"highest_label: {highest[1]}", head)
    manifest.write_text(f"{head}\nentries: []\n")
    return bundle


def only(bundle: str, id: str) -> None:
    """Leave one entry in a bundle of entries alone."""
    manifest = Path(bundle, "manifest.yaml")
    lines = manifest.read_text().splitlines(keepends=True)
    manifest.write_text("".join(line for line in lines if not line.startswith("  - {id") or id in line))


def eventful(root: str, bundle: str, scratch: str) -> dict[str, str]:
    """Make a record in which everything happened, and export it; return its entries' ids by what became of them."""
    Memory.init(root, domain="notes")
    with (
        Memory.open(root, clock=FrozenClock(), ids=CountingIds()) as memory,
        memory.session(author="owner") as owner,
        memory.session(author="session:one", destination="model") as agent,
    ):
        names = ("wrong", "right", "old", "gone")
        ids = {name: owner.write(fact(name, name, body=f"{LONG} {name}")).id for name in names}
        extra = {"colour": "red", "nested": {"a": [1, None]}}
        ids["checked"] = agent.write(fact("checked", "checked", extra=extra)).id
        owner.verify(ids["checked"], oracle="ci", evidence="run 12 用户: green # all", by="Ada")
        owner.verify(ids["checked"], oracle="human", evidence="asked", by="Bo")
        ids["new"] = owner.write(fact("new", "new", supersedes=(ids["old"],))).id
        owner.reject(ids["wrong"], reason="the old box")
        owner.reject(ids["right"], reason="a mistake")
        owner.lift(ids["right"], reason="it holds after all")
        owner.erase(ids["gone"], reason="requested")
        page = Path(scratch, "a.md")
        for text in ("# Kept\n\nstays\n\n# Archived\n\nto be archived\n", "# Kept\n\nstays\n"):
            page.write_text(text)
            owner.ingest([str(page)], domain="notes")
        Path(root, "record", "notes", "mem-hand.md").write_text(
            "---\ntitle:   'By hand'\ncreated: 2026-01-01T00:00:00+01:00\nclassification: public\n"
            "version_note: 1.10\ntags: alpha\n---\n\n\nHand-made.\r\n"
        )
        owner.reindex(domain="notes")
        exported = owner.export("notes", bundle)
        assert (exported.receipts, exported.promotions, exported.withheld_marks) == (1, 1, 0)
        assert exported.tombstones > len(names)
    return ids
