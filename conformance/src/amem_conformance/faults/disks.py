"""What a disk may hold after the power failed: a model of files and names of which not all is durable.

The model is this. The content of a file is durable as far as it was when the file was last synced;
behind that it may be missing, may be there by half, or may be zeros. A name (made, moved, removed) is
durable once a directory that it stands or stood in has been synced; until then each change of a name may have
reached the disk or not, whatever became of the others. A move is one change. The sync of a file
makes its own first name durable too, with the directories above it, as the common file systems do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from amem_conformance.faults.steps import Step

_CONTENT: Final = frozenset({"open", "write", "pwrite", "ftruncate", "truncate"})
_MOVES: Final = frozenset({"rename", "replace"})
_REMOVALS: Final = frozenset({"unlink", "remove", "rmdir"})


@dataclass(eq=False)
class Node:
    """A file's content now, and as it was when it was last synced; None for never. A directory has neither."""

    data: bytes = b""
    synced: bytes | None = None
    directory: bool = False


@dataclass(frozen=True, eq=False)
class Change:
    """A name that comes to stand for a node, or goes, or both at once."""

    node: Node
    comes: str | None = None
    goes: str | None = None

    def apply(self, names: dict[str, Node]) -> None:
        """Make the change."""
        if self.goes is not None:
            names.pop(self.goes, None)
        if self.comes is not None:
            names[self.comes] = self.node

    def concerns(self, directory: str) -> bool:
        """Return whether the sync of a directory makes it durable."""
        return directory in {os.path.dirname(path) for path in (self.comes, self.goes) if path is not None}


@dataclass
class Disk:
    """The tree below a root, as it is and as far as it is durable. Told of every step, in order.

    Attributes:
        names: what is there now, by path from the root.
        kept: what of that is durable.
        pending: the changes of names in between, oldest first.
    """

    root: str
    names: dict[str, Node] = field(default_factory=dict[str, Node])
    kept: dict[str, Node] = field(default_factory=dict[str, Node])
    pending: list[Change] = field(default_factory=list[Change])

    @classmethod
    def of(cls, root: str) -> Disk:
        """Return the disk that holds ``root`` as it is, all of it durable."""
        disk = cls(root)
        for above, directories, names in os.walk(root):
            for name in directories:
                disk.names[os.path.relpath(os.path.join(above, name), root)] = Node(directory=True)
            for name in names:
                data = _content(os.path.join(above, name))
                disk.names[os.path.relpath(os.path.join(above, name), root)] = Node(data, data)
        disk.kept = dict(disk.names)
        return disk

    def done(self, step: Step) -> None:
        """Take in a step that has been done."""
        paths = [os.path.relpath(path, self.root) for path in step.paths]
        if step.layer != "os" or not paths or paths[0].startswith(os.pardir):
            return
        path = paths[0]
        if step.name in {"fsync", "fdatasync"}:
            self._sync(path, own_name=step.name == "fsync")
        elif step.name in _CONTENT:
            self._take_content(path, step.paths[0])
        else:
            change = self._change_of(step.name, path, paths[-1])
            if change is not None:
                change.apply(self.names)
                self.pending.append(change)

    def _take_content(self, path: str, real: str) -> None:
        """Read what a file holds now, also when it was only opened, which may have made or emptied it."""
        if not os.path.isfile(real):
            return
        if path not in self.names:
            change = Change(Node(), comes=path)
            change.apply(self.names)
            self.pending.append(change)
        self.names[path].data = _content(real)

    def _change_of(self, name: str, path: str, other: str) -> Change | None:
        """Return what a step does to names, None for nothing."""
        if name == "mkdir":
            return Change(Node(directory=True), comes=path)
        if name in _REMOVALS:
            return Change(self.names[path], goes=path)
        if name in _MOVES:
            return Change(self.names[path], comes=other, goes=path)
        return Change(self.names[path], comes=other) if name == "link" else None

    def _sync(self, path: str, *, own_name: bool) -> None:
        node = self.names.get(path)
        if path == "." or (node is not None and node.directory):
            self._settle([change for change in self.pending if change.concerns("" if path == "." else path)])
        elif node is not None:
            node.synced = node.data
            if own_name:
                self._settle(self._first_names(node, path))

    def _first_names(self, node: Node, path: str) -> list[Change]:
        """Return the change that made the file, and those that made the directories above it."""
        above = {os.path.dirname(path)}
        while any(above):
            above |= {os.path.dirname(each) for each in above}
            if "" in above:
                break
        made = next((change for change in self.pending if change.node is node), None)
        directories = [change for change in self.pending if change.node.directory and change.comes in above]
        return [*directories, *([made] if made else [])]

    def _settle(self, changes: list[Change]) -> None:
        for change in changes:
            change.apply(self.kept)
            self.pending.remove(change)

    def images(self) -> Iterator[tuple[str, dict[str, bytes | None]]]:
        """Yield what may be found after the power failed now: what it is, and content by path, None for a directory."""
        yield "nothing that was not synced", _image(self.kept, [], _synced)
        yield "all names, no content that was not synced", _image(self.kept, self.pending, _synced)
        yield "all names, content by half", _image(self.kept, self.pending, _half)
        yield "all names, zeros for content", _image(self.kept, self.pending, _zeros)
        yield "everything", _image(self.kept, self.pending, _all)
        for change in self.pending:
            name = change.comes or change.goes
            yield f"of the names only {name}", _image(self.kept, [change], _synced)
            others = [each for each in self.pending if each is not change]
            yield f"all names but {name}", _image(self.kept, others, _all)


def _image(kept: dict[str, Node], changes: list[Change], content: Callable[[Node], bytes]) -> dict[str, bytes | None]:
    names = dict(kept)
    for change in changes:
        change.apply(names)
    return {path: None if node.directory else content(node) for path, node in names.items() if _reachable(path, names)}


def _reachable(path: str, names: dict[str, Node]) -> bool:
    above = os.path.dirname(path)
    while above:
        if above not in names:
            return False
        above = os.path.dirname(above)
    return True


def _synced(node: Node) -> bytes:
    return node.synced or b""


def _all(node: Node) -> bytes:
    return node.data


def _half(node: Node) -> bytes:
    kept = _common(node)
    return node.data[: kept + (len(node.data) - kept) // 2]


def _zeros(node: Node) -> bytes:
    kept = _common(node)
    return node.data[:kept] + bytes(len(node.data) - kept)


def _common(node: Node) -> int:
    """Return how much of the content is durable as it stands: what was synced, where it was only added to."""
    synced = node.synced or b""
    return len(synced) if node.data.startswith(synced) else 0


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
