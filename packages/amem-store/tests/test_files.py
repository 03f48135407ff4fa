"""What the record on disk promises beyond the port: its layout, its waits for the disk, and its refusals."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from amem_core.errors import ConflictError, UnavailableError
from amem_core.ports.store import NewVersion, Stored, Unreadable
from amem_store import _disk
from amem_store._layout import stated_version
from amem_store.files import FilesStore

DIRECTORY_CALLS = ("replace", "link", "unlink", "fsync")


def text(id: str, version: int, body: str = "") -> bytes:
    return f"---\nid: {id}\nversion: {version}\n---\n{body}\n".encode()


def new(id: str, version: int = 1, after: bytes | None = None, body: str = "") -> NewVersion:
    data = text(id, version, body)
    digest = hashlib.sha256(data).hexdigest()
    return NewVersion(id, version, data, digest, None if after is None else hashlib.sha256(after).hexdigest())


def write(store: FilesStore, *versions: NewVersion) -> None:
    for version in versions:
        store.stage("d", [version])
        store.publish("d", [version])


class Fsyncs:
    """Does nothing but name what was to be made durable."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.names: list[str] = []

    def __call__(self, fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        self.names.append(path.relative_to(self._root / "record").as_posix())

    def taken(self) -> list[str]:
        names, self.names = self.names, []
        return names


@pytest.fixture
def counted(tmp_path: Path) -> tuple[FilesStore, Fsyncs]:
    FilesStore(str(tmp_path))
    fsyncs = Fsyncs(tmp_path)
    store = FilesStore(str(tmp_path), fsync=fsyncs)
    write(store, new("mem-first"))
    fsyncs.taken()
    return store, fsyncs


def test_a_first_version_waits_for_its_file_and_for_its_directory_once(counted: tuple[FilesStore, Fsyncs]) -> None:
    store, fsyncs = counted
    version = new("mem-a")
    store.stage("d", [version])
    assert fsyncs.taken() == [f"d/.staging/mem-a.1.{version.digest}"]
    store.publish("d", [version])
    assert fsyncs.taken() == ["d"]


def test_a_group_waits_for_each_file_and_for_its_directory_once(counted: tuple[FilesStore, Fsyncs]) -> None:
    store, fsyncs = counted
    made = [new(f"mem-{n}") for n in range(16)]
    store.stage("d", made)
    assert len(fsyncs.taken()) == 16
    store.publish("d", made)
    assert fsyncs.taken() == ["d"]


def test_a_replaced_version_is_durable_under_its_number_before_the_next_takes_its_place(
    counted: tuple[FilesStore, Fsyncs],
) -> None:
    store, fsyncs = counted
    made = [new("mem-a")]
    for number in range(2, 5):
        made.append(new("mem-a", number, made[-1].data))
    write(store, made[0])
    fsyncs.taken()
    waits: list[list[str]] = []
    for version in made[1:]:
        store.stage("d", [version])
        fsyncs.taken()
        store.publish("d", [version])
        waits.append(fsyncs.taken())
    # The first time in the domain makes .history, the first time for the entry makes its directory.
    assert waits[0] == ["d", "d/.history/mem-a", "d/.history", "d"]
    assert waits[1:] == [["d/.history/mem-a", "d"]] * 2


def test_the_first_write_of_a_domain_waits_for_the_records_directory_as_well(tmp_path: Path) -> None:
    fsyncs = Fsyncs(tmp_path)
    FilesStore(str(tmp_path))
    store = FilesStore(str(tmp_path), fsync=fsyncs)
    write(store, new("mem-a"))
    assert fsyncs.taken()[0] == "."
    assert len(fsyncs.taken()) == 0


def test_the_layout_is_the_one_that_people_rely_on(tmp_path: Path) -> None:
    store = FilesStore(str(tmp_path))
    first = new("mem-a")
    second = new("mem-a", 2, first.data)
    third = new("mem-a", 3, second.data)
    write(store, first, second)
    store.stage("d", [third])
    store.save_mark("d", "erasures", "mem-b", b"receipt")
    store.save_mark("d", "tombstones", "0" * 64, b"tombstone")
    store.save_mark("d", "promotions", "mem-c", b"promotion")
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {
        "record/d/mem-a.md",
        "record/d/.history/mem-a/1.md",
        "record/d/.erasures/mem-b.yaml",
        f"record/d/.tombstones/{'0' * 64}.yaml",
        "record/d/.promotions/mem-c.yaml",
        f"record/d/.staging/mem-a.3.{third.digest}",
    }
    for path in tmp_path.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


class Crash(BaseException):
    """The process dies here."""


def crashing(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Die at the ``at``-th call that changes a directory or waits for the disk."""
    left = [at]

    def wrap(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            if left[0] == 0:
                raise Crash
            left[0] -= 1
            return real(*args, **kwargs)

        return call

    for name in DIRECTORY_CALLS:
        monkeypatch.setattr(os, name, wrap(getattr(os, name)))


@pytest.mark.parametrize("at", range(12))
def test_a_publish_that_dies_at_any_step_is_completed_by_repeating_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    first = new("mem-a")
    second = new("mem-a", 2, first.data)
    other = new("mem-b")
    store = FilesStore(str(tmp_path))
    write(store, first)
    store.stage("d", [second, other])
    with monkeypatch.context() as patch:
        crashing(patch, at)
        try:
            FilesStore(str(tmp_path), fsync=os.fsync).publish("d", [second, other])
        except Crash:
            died = True
        else:
            died = False
    # The name .history, the link, the entry's history, the name in .history, two renames, the directory.
    assert died == (at < 7)
    again = FilesStore(str(tmp_path))
    current = again.read("d", "mem-a")
    assert current in {first.data, second.data}
    assert again.earlier_versions("d", "mem-a") == ([1] if current == second.data else [])
    again.publish("d", [second, other])
    assert again.read("d", "mem-a") == second.data
    assert again.read("d", "mem-a", 1) == first.data
    assert again.read("d", "mem-b") == other.data
    assert again.staged("d") == []


@pytest.mark.parametrize("at", range(12))
def test_an_erasure_that_dies_at_any_step_is_completed_by_repeating_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    first = new("mem-a", body="secret")
    second = new("mem-a", 2, first.data, body="secret")
    store = FilesStore(str(tmp_path))
    write(store, first, second)
    store.stage("d", [new("mem-a", 3, second.data, body="secret")])
    stub = text("mem-a", 4, "erased")
    with monkeypatch.context() as patch:
        crashing(patch, at)
        with contextlib.suppress(Crash):
            FilesStore(str(tmp_path), fsync=os.fsync).erase("d", "mem-a", stub, 4)
    again = FilesStore(str(tmp_path))
    again.erase("d", "mem-a", stub, 4)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.name for path in files] == ["mem-a.md"]
    assert files[0].read_bytes() == stub


def test_versions_are_kept_by_copying_where_a_file_system_has_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "link", refuse)
    store = FilesStore(str(tmp_path))
    first = new("mem-a")
    second = new("mem-a", 2, first.data)
    write(store, first)
    store.stage("d", [second])
    with monkeypatch.context() as patch:
        crashing(patch, 5)  # Behind the copy, before the rename.
        with pytest.raises(Crash):
            FilesStore(str(tmp_path), fsync=os.fsync).publish("d", [second])
    monkeypatch.setattr(os, "link", refuse)
    store.publish("d", [second])
    assert store.earlier_versions("d", "mem-a") == [1]
    assert store.read("d", "mem-a", 1) == first.data
    assert store.read("d", "mem-a") == second.data


@pytest.mark.parametrize("place", ["domain", "entry", "history", "staging", "erasures", "tombstones"])
def test_a_symbolic_link_in_the_record_is_never_followed(tmp_path: Path, place: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "mem-x.md").write_text("outside")
    store = FilesStore(str(root))
    first = new("mem-x")
    if place != "domain":
        write(store, new("mem-ok"))
        store.save_mark("d", "tombstones", "0" * 64, b"tombstone")
        store.save_mark("d", "erasures", "mem-ok", b"receipt")
    links = {
        "domain": "d",
        "entry": "d/mem-x.md",
        "history": "d/.history",
        "staging": "d/.staging",
        "erasures": "d/.erasures",
        "tombstones": "d/.tombstones",
    }
    link = root / "record" / links[place]
    if link.is_dir():
        for name in link.iterdir():
            name.unlink()
        link.rmdir()
    link.symlink_to(outside / "mem-x.md" if place == "entry" else outside)
    calls: dict[str, list[Callable[[], object]]] = {
        "domain": [
            lambda: store.read("d", "mem-x"),
            lambda: list(store.entries("d")),
            lambda: store.stage("d", [first]),
            lambda: store.erase("d", "mem-x", b"stub", 2),
        ],
        "entry": [lambda: store.read("d", "mem-x")],
        "history": [lambda: store.earlier_versions("d", "mem-x"), lambda: store.read("d", "mem-x", 1)],
        "staging": [lambda: store.stage("d", [first]), lambda: store.staged("d")],
        "erasures": [
            lambda: store.save_mark("d", "erasures", "mem-x", b"r"),
            lambda: list(store.marks("d", "erasures")),
        ],
        "tombstones": [lambda: store.marks_of("d", "tombstones", ["0" * 64])],
    }
    for call in calls[place]:
        with pytest.raises(UnavailableError) as caught:
            call()
        assert str(root / "record") in str(caught.value)
        assert "symbolic link" in caught.value.hint
    assert [path.name for path in outside.iterdir()] == ["mem-x.md"]
    assert (outside / "mem-x.md").read_text() == "outside"
    if place == "entry":
        found = list(store.entries("d"))
        assert [each.id for each in found if isinstance(each, Stored)] == ["mem-ok"]
        assert [each.path for each in found if isinstance(each, Unreadable)] == [str(link)]
    assert store.domains() == ["d"]


@pytest.mark.parametrize("what", ["domain", "record"])
def test_a_listing_that_cannot_be_made_is_an_error_and_never_empty(tmp_path: Path, what: str) -> None:
    store = FilesStore(str(tmp_path))
    path = tmp_path / "record"
    if what == "domain":
        (path / "d").write_text("a file where the domain's directory should be")
    else:
        path.rename(tmp_path / "elsewhere")
    with pytest.raises(UnavailableError):
        list(store.entries("d"))
    with pytest.raises(UnavailableError):
        store.read("d", "mem-a")
    with pytest.raises(UnavailableError):
        store.earlier_versions("d", "mem-a")
    if what == "record":
        with pytest.raises(UnavailableError):
            store.domains()


def in_child_without_rights(work: Callable[[], None]) -> int:
    """Run ``work`` in a process whose user owns nothing; return its exit code, 0 when it raised nothing."""
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_what_may_not_be_read_is_an_error_that_names_the_path_and_the_remedy(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    store = FilesStore(str(root))
    write(store, new("mem-a"))
    for path in (root, *tmp_path.parents, tmp_path):
        if path.stat().st_uid == os.getuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o755)
    (root / "record").chmod(0o755)
    domain = root / "record" / "d"

    def refused(call: Callable[[], object], path: Path) -> None:
        with pytest.raises(UnavailableError) as caught:
            call()
        assert str(path) in str(caught.value)
        assert "access" in caught.value.hint
        assert caught.value.__cause__ is not None

    def closed_directory() -> None:
        refused(lambda: list(store.entries("d")), domain)
        refused(lambda: store.read("d", "mem-a"), domain)
        refused(lambda: store.earlier_versions("d", "mem-a"), domain)
        assert store.domains() == ["d"]

    domain.chmod(0o000)
    assert in_child_without_rights(closed_directory) == 0
    domain.chmod(0o755)
    (domain / "mem-a.md").chmod(0o000)

    def closed_file() -> None:
        refused(lambda: store.read("d", "mem-a"), domain / "mem-a.md")
        assert [type(each) for each in store.entries("d")] == [Stored]

    assert in_child_without_rights(closed_file) == 0
    domain.chmod(0o700)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT])
def test_a_disk_that_takes_no_more_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store = FilesStore(str(tmp_path))
    first = new("mem-a")
    write(store, first)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    real = os.write

    def write_some(fd: int, data: bytes) -> int:
        if len(data) < 40:
            raise OSError(number, os.strerror(number))
        return real(fd, data[: len(data) // 2])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_some)
        with pytest.raises(UnavailableError) as caught:
            store.stage("d", [new("mem-b", body="b" * 99), new("mem-a", 2, first.data)])
        assert caught.value.hint
        assert caught.value.retryable
        with pytest.raises(UnavailableError):
            store.save_mark("d", "erasures", "mem-a", b"receipt")
        with pytest.raises(UnavailableError):
            store.erase("d", "mem-a", b"stub", 2)
    left = sorted(path.name for path in tmp_path.rglob("*") if path.name != ".erasures")
    assert left == before
    assert store.read("d", "mem-a") == first.data


def test_a_disk_that_cannot_make_a_file_durable_stages_nothing(tmp_path: Path) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    good = FilesStore(str(tmp_path))
    write(good, new("mem-a"))
    bad = FilesStore(str(tmp_path), fsync=fail)
    with pytest.raises(UnavailableError, match="Input/output"):
        bad.stage("d", [new("mem-b"), new("mem-c")])
    assert good.staged("d") == []


def test_a_root_that_is_not_there_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError):
        FilesStore(str(tmp_path / "missing"))
    assert list(tmp_path.iterdir()) == []


def test_staged_bytes_that_rotted_are_never_published(tmp_path: Path) -> None:
    store = FilesStore(str(tmp_path))
    version = new("mem-a")
    store.stage("d", [version])
    [staged] = (tmp_path / "record/d/.staging").iterdir()
    staged.write_bytes(b"---\nid: mem-a\nver")
    with pytest.raises(LookupError):
        store.publish("d", [version])
    assert list(store.entries("d")) == []
    store.stage("d", [version])
    store.publish("d", [version])
    assert store.read("d", "mem-a") == version.data


def test_a_number_that_a_hand_edit_set_back_costs_no_version(tmp_path: Path) -> None:
    store = FilesStore(str(tmp_path))
    made = [new("mem-a")]
    for number in (2, 3):
        made.append(new("mem-a", number, made[-1].data))
    write(store, *made)
    edited = text("mem-a", 1, "edited by hand, with the number of another version")
    (tmp_path / "record/d/mem-a.md").write_bytes(edited)
    late = new("mem-a", 3, edited)
    store.stage("d", [late])
    with pytest.raises(ConflictError):
        store.publish("d", [late])
    write(store, new("mem-a", 9, edited))
    assert store.earlier_versions("d", "mem-a") == [1, 2, 3]
    assert [store.read("d", "mem-a", n) for n in (1, 2, 3)] == [made[0].data, made[1].data, edited]


def test_a_name_that_is_not_utf8_is_told_in_valid_text(tmp_path: Path) -> None:
    store = FilesStore(str(tmp_path))
    write(store, new("mem-a"))
    with open(os.fsencode(tmp_path) + b"/record/d/mem-\xff.md", "wb") as file:
        file.write(b"x")
    os.mkfifo(tmp_path / "record/d/mem-fifo.md")
    (tmp_path / "record/d/mem-dir.md").mkdir()
    found = [each for each in store.entries("d") if isinstance(each, Unreadable)]
    assert len(found) == 3
    for each in found:
        each.path.encode("utf-8")
    with pytest.raises(UnavailableError):
        store.read("d", "mem-fifo")


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b"---\nversion: 7\n---\n", 7),
        (b"\xef\xbb\xbf---\r\nid: mem-a\r\nversion: 12\r\n---\r\nbody", 12),
        (b"---\n'version': '3'\n---\n", 3),
        (b'---\n"version" : 4 # four\n---\n', 4),
        (b"---\nsummary: |\n  version: 9\nversion: 2\n---\n", 2),
        (b"---\nversion_note: 1.10\n---\nversion: 5\n", 1),
        (b"---\nversion: 0\n---\n", 1),
        (b"---\nversion: 8\n", 8),
        (b"no frontmatter\nversion: 6\n", 1),
        (b"", 1),
    ],
)
def test_the_number_of_a_file_is_the_one_in_its_frontmatter(data: bytes, number: int) -> None:
    assert stated_version(data) == number


def test_every_error_of_the_system_gets_a_remedy() -> None:
    for number in errno.errorcode:
        error = _disk.unavailable(OSError(number, os.strerror(number)), "read", "/x/y")
        assert "/x/y" in str(error)
        assert error.hint
