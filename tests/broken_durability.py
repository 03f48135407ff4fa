"""Backends that each break what the fault table promises, made from the embedded ones as a stranger's plugin would be.

``installed`` makes the module a distribution on the path, with its entry points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amem_core.errors import NotFoundError, UnavailableError
from amem_core.plugins.spec import BackendSpec
from amem_core.testing import DirectoryHarness
from amem_index.config import SqliteSettings
from amem_index.sqlite import open_index
from amem_store.files import FilesStore
from amem_store.jsonl import JsonlLog

if TYPE_CHECKING:
    from pathlib import Path

harness = DirectoryHarness()


@dataclass(frozen=True)
class NoSettings:
    pass


class Broken:
    """Hands everything to the backend inside, except what a subclass does wrong."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Late(Broken):
    """Says that bytes are staged and published when it only means to do that soon."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.waiting: list[Any] = []

    def stage(self, domain: str, versions: Any) -> None:
        self.waiting.append((self.inner.stage, domain, versions))

    def publish(self, domain: str, versions: Any) -> None:
        self.waiting.append((self.inner.publish, domain, versions))

    def __getattr__(self, name: str) -> Any:
        if name != "marks_of":
            while self.waiting:
                step, domain, versions = self.waiting.pop(0)
                step(domain, versions)
        return getattr(self.inner, name)

    def close(self) -> None:
        self.__getattr__("close")()


class Blind(Broken):
    """Takes what it cannot read for what is not there."""

    def read(self, domain: str, id: str, version: int | None = None) -> bytes:
        try:
            return self.inner.read(domain, id, version)
        except UnavailableError as exc:
            message = f"there is no {id}"
            raise NotFoundError(message) from exc


class Dropping(Broken):
    """Leaves out the event of an entry that was written."""

    def writer(self, domain: str, **rest: Any) -> Any:
        return DroppingWriter(self.inner.writer(domain, **rest))


class DroppingWriter(Broken):
    def __enter__(self) -> Any:
        self.inner, self.context = self.inner.__enter__(), self.inner
        return self

    def __exit__(self, *error: object) -> Any:
        return self.context.__exit__(*error)

    def append(self, events: Any) -> Any:
        return self.inner.append([event for event in events if event.kind != "entry.superseded"])


class Forgetful(Broken):
    """Says that it has followed the log and takes in nothing new that supersedes."""

    def apply(self, domain: str, documents: Any, *, through: int) -> None:
        kept = [document for document in documents if not document.entry.supersedes]
        self.inner.apply(domain, kept, through=through)


class Stubborn(Broken):
    """Goes on whatever is raised."""

    def apply(self, domain: str, documents: Any, *, through: int) -> None:
        try:
            self.inner.apply(domain, documents, through=through)
        except BaseException:
            self.inner.apply(domain, documents, through=through)


def do_not_wait(fd: int) -> None:
    """Stand in for fsync."""


FACTORIES = {
    "store.late": lambda root: Late(FilesStore(root)),
    "store.blind": lambda root: Blind(FilesStore(root)),
    "store.unsynced": lambda root: FilesStore(root, fsync=do_not_wait),
    "log.unsynced": lambda root: JsonlLog(root, fdatasync=do_not_wait),
    "log.dropping": lambda root: Dropping(JsonlLog(root)),
    "index.forgetful": lambda root: Forgetful(open_index(root, SqliteSettings())),
    "index.stubborn": lambda root: Stubborn(open_index(root, SqliteSettings())),
}


def __getattr__(name: str) -> Any:
    """Return the factory ``open_<port>_<name>``."""
    if name.startswith("open_"):
        make = FACTORIES[name.removeprefix("open_").replace("_", ".", 1)]
        return lambda root, _settings: make(root)
    raise AttributeError(name)


def amem_backends() -> list[BackendSpec]:
    return [
        BackendSpec(
            port=key.partition(".")[0],
            name=key.partition(".")[2],
            api=(1, 0),
            settings="broken_durability:NoSettings",
            factory=f"broken_durability:open_{key.replace('.', '_')}",
        )
        for key in FACTORIES
    ]


def installed(directory: Path) -> str:
    """Make the directory hold a distribution that registers these backends; return it as an entry of the path."""
    info = directory / "broken_durability-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-durability\nVersion: 0\n")
    backends = "".join(f"{key} = broken_durability\n" for key in FACTORIES)
    harnesses = "".join(f"{key} = broken_durability:harness\n" for key in FACTORIES)
    (info / "entry_points.txt").write_text(f"[amem.backends]\n{backends}[amem.conformance]\n{harnesses}")
    return str(directory)
