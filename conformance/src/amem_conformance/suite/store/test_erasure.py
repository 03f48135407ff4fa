"""Erasure removes the bytes of every version, provably, and nothing else's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amem_conformance.harness import Raw
from amem_conformance.suite.store._making import chain, ids, new, text, write
from amem_core.errors import ConflictError, InvalidError, NotFoundError
from amem_core.ports.store import Store

SECRET = "the-words-to-be-forgotten"  # noqa: S105  (a marker to look for)
STUB = text("mem-a", 4, "erased")


def _fill(store: Store) -> None:
    """Write three versions with the words, stage a fourth, and neighbours without them."""
    made = [new("mem-a", 1, body=SECRET)]
    made.append(new("mem-a", 2, after=made[0].data, body=f"{SECRET} 2"))
    made.append(new("mem-a", 3, after=made[1].data, body=f"{SECRET} 3"))
    write(store, "d", *made)
    store.stage("d", [new("mem-a", 4, after=made[2].data, body=f"{SECRET} 4"), new("mem-a-b"), new("mem-ab", 9)])
    write(store, "d", *chain("mem-a0", 1, 2))
    write(store, "e", *chain("mem-a", 1, 2))


def _traces(raw: Raw | None) -> list[str]:
    return [] if raw is None else [key for key, data in raw.blobs() if SECRET.encode() in data]


@pytest.mark.requirement("store:erase:gone")
def test_an_erasure_leaves_the_stub_and_no_byte_of_any_version(
    backend: Store, reopen: Callable[[], Store], raw: Raw | None
) -> None:
    _fill(backend)
    assert raw is None or len(_traces(raw)) >= 4
    assert backend.erase("d", "mem-a", STUB, 4) == [1, 2]
    assert _traces(raw) == []
    for store in (backend, reopen()):
        assert store.read("d", "mem-a") == STUB
        assert store.earlier_versions("d", "mem-a") == []
        assert "mem-a" not in {v.id for v in store.staged("d")}
        for number in (1, 2, 3):
            with pytest.raises(NotFoundError):
                store.read("d", "mem-a", number)
    assert _traces(raw) == []


@pytest.mark.requirement("store:erase:only")
def test_an_erasure_leaves_neighbours_and_other_domains_alone(backend: Store) -> None:
    _fill(backend)
    backend.erase("d", "mem-a", STUB, 4)
    assert [(v.id, v.version) for v in backend.staged("d")] == [("mem-a-b", 1), ("mem-ab", 9)]
    assert ids(backend, "d") == ["mem-a", "mem-a0"]
    assert backend.earlier_versions("d", "mem-a0") == [1]
    assert backend.earlier_versions("e", "mem-a") == [1]


@pytest.mark.requirement("store:erase:repeat")
def test_repeating_an_erasure_changes_nothing(backend: Store, reopen: Callable[[], Store], raw: Raw | None) -> None:
    _fill(backend)
    backend.erase("d", "mem-a", STUB, 4)
    before = (list(backend.entries("d")), sorted(raw.blobs()) if raw else [])
    assert backend.erase("d", "mem-a", STUB, 4) == []
    assert reopen().erase("d", "mem-a", STUB, 4) == []
    assert (list(reopen().entries("d")), sorted(raw.blobs()) if raw else []) == before


@pytest.mark.requirement("store:erase:single")
def test_an_entry_of_one_version_is_erased_too(backend: Store, raw: Raw | None) -> None:
    write(backend, "d", new("mem-a", 1, body=SECRET))
    assert backend.erase("d", "mem-a", STUB, 4) == []
    assert backend.read("d", "mem-a") == STUB
    assert _traces(raw) == []


@pytest.mark.requirement("store:erase:after")
def test_what_was_erased_does_not_come_back_by_repeating_its_publish(backend: Store) -> None:
    first, second = chain("mem-a", 1, 2)
    write(backend, "d", first, second)
    backend.erase("d", "mem-a", STUB, 4)
    backend.stage("d", [second])
    with pytest.raises(ConflictError):
        backend.publish("d", [second])
    assert backend.read("d", "mem-a") == STUB
    backend.discard("d", "mem-a", 2)
    write(backend, "d", new("mem-a", 5, after=STUB))
    assert backend.earlier_versions("d", "mem-a") == [4]


@pytest.mark.requirement("store:mark:kept")
def test_marks_are_kept_by_kind_and_key_and_replaced_whole(backend: Store, reopen: Callable[[], Store]) -> None:
    assert list(backend.marks("d", "erasures")) == []
    for name in ("mem-b", "mem-a-b", "mem-a"):
        backend.save_mark("d", "erasures", name, f"receipt of {name}".encode())
    backend.save_mark("d", "erasures", "mem-b", b"receipt, second")
    backend.save_mark("d", "promotions", "mem-b", b"promotion")
    backend.save_mark("e", "erasures", "mem-z", b"elsewhere")
    wanted = [("mem-a", b"receipt of mem-a"), ("mem-a-b", b"receipt of mem-a-b"), ("mem-b", b"receipt, second")]
    assert list(backend.marks("d", "erasures")) == wanted
    again = reopen()
    assert list(again.marks("d", "erasures")) == wanted
    assert list(again.marks("d", "promotions")) == [("mem-b", b"promotion")]
    assert list(again.marks("d", "tombstones")) == []
    assert ids(again, "d") == []


@pytest.mark.requirement("store:mark:asked")
def test_marks_are_found_by_their_keys_and_outlive_an_erasure(backend: Store, second: Callable[[], Store]) -> None:
    first, other = "0" * 64, "a" * 64
    assert backend.marks_of("d", "tombstones", [first, other]) == {}
    write(backend, "d", new("mem-a"))
    backend.save_mark("d", "tombstones", first, b"tombstone")
    backend.erase("d", "mem-a", STUB, 2)
    for store in (backend, second()):
        assert store.marks_of("d", "tombstones", [other, first]) == {first: b"tombstone"}
        assert store.marks_of("d", "tombstones", [other]) == {}
        assert store.marks_of("d", "tombstones", []) == {}
        assert store.marks_of("e", "tombstones", [first]) == {}


@pytest.mark.requirement("store:mark:names")
@pytest.mark.parametrize(
    "key", ["../" + "a" * 61, "A" * 64, "a" * 63, "mem-a", "", "a" * 64 + ".yaml", "a" * 64 + "\n"]
)
def test_a_key_that_is_no_values_is_refused_for_a_tombstone(backend: Store, key: str) -> None:
    with pytest.raises(InvalidError):
        backend.save_mark("d", "tombstones", key, b"tombstone")
    with pytest.raises(InvalidError):
        backend.marks_of("d", "tombstones", [key])
    assert list(backend.marks("d", "tombstones")) == []
