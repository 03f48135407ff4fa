"""Whatever happens to a file of the index in Tantivy, it is named with its remedy, and a rebuild mends it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amem_conformance.suite.index._making import DOMAIN, ask, doc, listed, put
from amem_core.domain.labels import Label
from amem_core.domain.queries import ReadFilter
from amem_core.errors import UnavailableError, UnknownFormatError
from amem_index.config import TantivySettings
from amem_index.tantivy import _engine
from amem_index.tantivy.index import TantivyIndex, open_index

SETTINGS = TantivySettings(pending=20, busy_seconds=5.0)
DOCUMENTS = [doc(f"n{number:02}", f"walrus number{number}") for number in range(50)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with fifty entries, most of them taken in, and a second domain."""
    index = open_index(str(tmp_path), SETTINGS)
    put(index, *DOCUMENTS[:30], through=4)
    put(index, *DOCUMENTS[30:45], through=5)
    put(index, *[doc(f"o{number}", "walrus", domain="other") for number in range(25)], through=7)
    index.close()
    return tmp_path


@pytest.fixture
def opened(root: Path) -> Iterator[Callable[[], TantivyIndex]]:
    instances: list[TantivyIndex] = []

    def another() -> TantivyIndex:
        instances.append(open_index(str(root), SETTINGS))
        return instances[-1]

    yield another
    for instance in instances:
        instance.close()


def generation(root: Path, domain: str = DOMAIN) -> Path:
    (path,) = (root / "state" / "tantivy" / domain).iterdir()
    return path


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes(byte ^ 0xFF for byte in data[middle : middle + 16]) + data[middle + 16 :]


DAMAGES: list[Callable[[bytes], bytes | None]] = [
    lambda data: None,
    lambda data: b"",
    lambda data: data[: len(data) // 2],
    lambda data: b"\x00" * len(data),
    lambda data: b"not what it was",
    flipped,
]


def in_directory(root: Path) -> list[str]:
    return sorted({path.suffix or path.name for path in generation(root).iterdir()})


def test_a_directory_holds_what_the_damages_below_are_done_to(root: Path) -> None:
    assert in_directory(root) == [
        ".fast", ".fieldnorm", ".idx", ".json", ".lock", ".pos", ".store", ".term", "held",
    ]  # fmt: skip


def asked(index: TantivyIndex) -> tuple[set[str], UnavailableError | None]:
    try:
        return set(ask(index, "walrus", limit=100)), None
    except UnavailableError as error:
        return set(), error


@pytest.mark.parametrize("damage", DAMAGES, ids=["gone", "empty", "half", "zeros", "other", "flipped"])
@pytest.mark.parametrize(
    "kind", ["fast", "fieldnorm", "idx", "pos", "store", "term", "meta.json", "managed.json", "held"]
)
def test_damage_to_a_file_of_tantivy_is_an_error_or_an_answer_and_a_rebuild_mends_it(
    root: Path, opened: Callable[[], TantivyIndex], kind: str, damage: Callable[[bytes], bytes | None]
) -> None:
    whole = set(ask(opened(), "walrus", limit=100))
    for path in generation(root).iterdir():
        if path.name.endswith(kind):
            data = damage(path.read_bytes())
            path.unlink()
            if data is not None:
                path.write_bytes(data)
    index = opened()
    found, error = asked(index)
    if error is not None:
        assert "damaged" in str(error)
        assert str(generation(root)) in str(error)
        assert "amem reindex" in error.hint
    else:
        assert found == whole if damage is not flipped else found <= whole
    assert len(listed(index, limit=100)) == 45
    assert index.watermark(DOMAIN) == 5
    assert index.rebuild(DOMAIN, DOCUMENTS, through=6) == 50
    assert len(ask(index, "walrus", limit=100)) == 50
    assert len(ask(index, "walrus", ReadFilter({"other": Label.internal}), limit=100)) == 25


def test_a_missing_directory_is_named_and_a_rebuild_makes_it(root: Path, opened: Callable[[], TantivyIndex]) -> None:
    missing = generation(root)
    shutil.rmtree(missing)
    index = opened()
    with pytest.raises(UnavailableError, match="missing") as caught:
        ask(index, "walrus")
    assert str(missing) in str(caught.value)
    assert "amem reindex" in caught.value.hint
    with pytest.raises(UnavailableError, match="missing"):
        put(index, *DOCUMENTS, through=6)
    assert len(listed(index, limit=100)) == 50
    assert index.rebuild(DOMAIN, DOCUMENTS, through=6) == 50
    assert len(ask(index, "walrus", limit=100)) == 50


def test_a_directory_that_is_older_than_the_catalog_is_damage(root: Path, opened: Callable[[], TantivyIndex]) -> None:
    place = generation(root)
    shutil.copytree(place, root / "copy")
    put(opened(), *DOCUMENTS, through=6)
    shutil.rmtree(place)
    (root / "copy").rename(place)
    with pytest.raises(UnavailableError, match="of different times") as caught:
        ask(opened(), "walrus")
    assert "amem reindex" in caught.value.hint


def test_a_catalog_that_is_older_than_its_directory_is_damage(root: Path, opened: Callable[[], TantivyIndex]) -> None:
    catalog = root / "state" / "tantivy" / "catalog.sqlite"
    before = catalog.read_bytes()
    index = opened()
    put(index, *DOCUMENTS, through=6)
    index.close()
    for path in catalog.parent.glob("catalog.sqlite-*"):
        path.unlink()
    catalog.write_bytes(before)
    index = opened()
    with pytest.raises(UnavailableError, match="of different times") as caught:
        ask(index, "walrus")
    assert "amem reindex" in caught.value.hint
    with pytest.raises(UnavailableError, match="of different times"):
        put(index, *DOCUMENTS[:25], through=6)
    assert index.rebuild(DOMAIN, DOCUMENTS, through=6) == 50
    assert len(ask(index, "walrus", limit=100)) == 50


def test_a_damaged_catalog_is_named_and_a_rebuild_begins_it_anew(
    root: Path, opened: Callable[[], TantivyIndex]
) -> None:
    (root / "state" / "tantivy" / "catalog.sqlite").write_bytes(b"not a database at all, " * 1000)
    index = opened()
    for call in (lambda: ask(index, "walrus"), lambda: index.watermark(DOMAIN), lambda: put(index, DOCUMENTS[0])):
        with pytest.raises(UnavailableError, match=r"catalog\.sqlite is damaged") as caught:
            call()
        assert "amem reindex" in caught.value.hint
    assert index.rebuild(DOMAIN, DOCUMENTS, through=6) == 50
    assert len(ask(index, "walrus", limit=100)) == 50
    assert index.watermark("other") == 0
    assert not (root / "state" / "tantivy" / "other").exists() or not list(
        (root / "state" / "tantivy" / "other").iterdir()
    )


def test_a_deleted_state_is_an_empty_index_at_once(root: Path, opened: Callable[[], TantivyIndex]) -> None:
    index = opened()
    assert len(ask(index, "walrus", limit=100)) == 45
    shutil.rmtree(root / "state")
    assert index.watermark(DOMAIN) == 0
    assert ask(index, "walrus") == []
    put(index, doc("a", "walrus"), through=8)
    assert ask(opened(), "walrus") == ask(index, "walrus") == ["a"]


def test_what_a_newer_amem_made_is_refused_and_left_alone(root: Path, opened: Callable[[], TantivyIndex]) -> None:
    catalog = root / "state" / "tantivy" / "catalog.sqlite"
    connection = sqlite3.connect(catalog)
    connection.execute("PRAGMA user_version = 999999")
    connection.close()
    before = catalog.read_bytes()
    index = opened()
    for call in (
        lambda: ask(index, "walrus"),
        lambda: index.watermark(DOMAIN),
        lambda: put(index, DOCUMENTS[0]),
        lambda: index.rebuild(DOMAIN, DOCUMENTS, through=6),
        lambda: index.forget(DOMAIN, "mem-n01", None),
    ):
        with pytest.raises(UnknownFormatError, match="999999") as caught:
            call()
        assert "upgrade amem" in caught.value.hint
    assert catalog.read_bytes() == before


def test_what_an_older_amem_made_is_made_anew(root: Path, opened: Callable[[], TantivyIndex]) -> None:
    connection = sqlite3.connect(root / "state" / "tantivy" / "catalog.sqlite")
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    index = opened()
    assert index.watermark(DOMAIN) == 0
    assert index.rebuild(DOMAIN, DOCUMENTS, through=6) == 50
    assert len(ask(index, "walrus", limit=100)) == 50


def test_a_directory_of_another_version_of_tantivy_is_named(
    root: Path, opened: Callable[[], TantivyIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other:
        @staticmethod
        def is_compatible(path: str) -> bool:
            return False

    monkeypatch.setattr(_engine, "Index", Other)
    with pytest.raises(UnavailableError, match="another version of Tantivy") as caught:
        ask(opened(), "walrus")
    assert "amem reindex" in caught.value.hint


def test_a_directory_that_cannot_be_written_is_named(
    root: Path, opened: Callable[[], TantivyIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: str, **_: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    index = opened()
    assert len(ask(index, "walrus", limit=100)) == 45
    monkeypatch.setattr(_engine.os, "makedirs", refused)
    with pytest.raises(UnavailableError, match="cannot be written: Permission denied") as caught:
        index.rebuild(DOMAIN, DOCUMENTS, through=6)
    assert caught.value.hint
    assert len(ask(index, "walrus", limit=100)) == 45


def test_something_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    index = open_index(str(tmp_path), SETTINGS)
    with pytest.raises(UnavailableError, match="state") as caught:
        ask(index, "walrus")
    assert caught.value.hint
    index.close()
