"""A listing is complete, in order, and tells what it cannot read; every version is readable."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amem_conformance.harness import Raw
from amem_conformance.suite.store._making import chain, ids, new, stamps, text, write
from amem_core.errors import ConflictError, NotFoundError
from amem_core.ports.store import Store, Stored, Unreadable


@pytest.mark.requirement("store:list:complete")
def test_a_listing_holds_every_entry_of_its_domain_once_by_id(backend: Store, reopen: Callable[[], Store]) -> None:
    names = [f"mem-{n * 7919 % 1301:x}" for n in range(1300)]
    made = [new(name) for name in names]
    backend.stage("d", made)
    backend.publish("d", made)
    write(backend, "e", new("mem-elsewhere"))
    assert ids(backend, "d") == sorted(names)
    assert ids(reopen(), "d") == sorted(names)


@pytest.mark.requirement("store:list:order")
def test_ids_that_begin_alike_are_listed_by_id(backend: Store) -> None:
    names = ["mem-a", "mem-a-b", "mem-a0", "mem-ab", "mem-b"]
    for name in reversed(names):
        write(backend, "d", new(name))
    assert ids(backend, "d") == sorted(names)


@pytest.mark.requirement("store:list:empty")
def test_a_domain_that_was_never_written_lists_nothing(backend: Store) -> None:
    write(backend, "d", new("mem-a"))
    assert list(backend.entries("other")) == []
    assert backend.staged("other") == []
    assert list(backend.marks("other", "erasures")) == []
    assert backend.earlier_versions("other", "mem-a") == []


@pytest.mark.requirement("store:list:stamp")
def test_a_stamp_changes_with_the_bytes_and_only_then(backend: Store, second: Callable[[], Store]) -> None:
    made = chain("mem-a", 1, 2, 3)
    write(backend, "d", new("mem-b"))
    seen: list[dict[str, str]] = []
    for version in made:
        write(backend, "d", version)
        seen.append(stamps(backend, "d"))
        assert stamps(second(), "d") == seen[-1]
    assert len({each["mem-a"] for each in seen}) == 3
    assert len({each["mem-b"] for each in seen}) == 1


@pytest.mark.requirement("store:list:domains")
def test_domains_are_those_with_entries_and_are_kept_apart(backend: Store) -> None:
    for domain in ("my-project", "my", "true", "2026", "null", "my_project"):
        write(backend, domain, new("mem-a", body=f"of {domain}"))
    backend.stage("staged-only", [new("mem-a")])
    backend.save_mark("receipt-only", "erasures", "mem-a", b"receipt")
    assert backend.domains() == sorted(["my-project", "my", "true", "2026", "null", "my_project"])
    assert backend.read("my", "mem-a") == text("mem-a", 1, "of my")
    assert ids(backend, "my") == ["mem-a"]


@pytest.mark.requirement("store:read:unknown")
def test_an_unknown_entry_domain_or_version_is_not_found(backend: Store) -> None:
    write(backend, "d", *chain("mem-a", 1, 2))
    for domain, id, version in (
        ("d", "mem-b", None),
        ("other", "mem-a", None),
        ("d", "mem-a", 3),
        ("d", "mem-a", 0),
        ("d", "mem-a", -1),
    ):
        with pytest.raises(NotFoundError):
            backend.read(domain, id, version)


@pytest.mark.requirement("store:read:current-by-number")
def test_the_current_version_is_not_found_by_its_number(backend: Store) -> None:
    write(backend, "d", *chain("mem-a", 1, 2))
    with pytest.raises(NotFoundError):
        backend.read("d", "mem-a", 2)


@pytest.mark.requirement("store:versions:kept")
def test_every_earlier_version_is_readable_under_its_number(backend: Store, reopen: Callable[[], Store]) -> None:
    made = chain("mem-a", 1, 2, 9, 10, 11, 100)
    write(backend, "d", *made)
    write(backend, "d", *chain("mem-ab", 1, 7))
    for store in (backend, reopen()):
        assert store.earlier_versions("d", "mem-a") == [1, 2, 9, 10, 11]
        assert [store.read("d", "mem-a", v.version) for v in made[:-1]] == [v.data for v in made[:-1]]
        assert store.earlier_versions("d", "mem-ab") == [1]


@pytest.mark.requirement("store:versions:unknown")
def test_an_unknown_id_has_no_earlier_versions(backend: Store) -> None:
    assert backend.earlier_versions("d", "mem-a") == []
    write(backend, "d", new("mem-a"))
    assert backend.earlier_versions("d", "mem-a") == []
    assert backend.earlier_versions("d", "mem-b") == []


def _key_of(raw: Raw, data: bytes) -> str:
    """Return the key under which the bytes are stored."""
    return next(key for key, blob in raw.blobs() if blob == data)


@pytest.mark.requirement("store:list:unreadable")
def test_what_is_no_entrys_file_is_listed_as_such_and_stops_nothing(backend: Store, raw: Raw | None) -> None:
    if raw is None:
        pytest.skip("the backend keeps no bytes behind its back")
    made = [new("mem-a"), new("mem-c")]
    write(backend, "d", *made)
    place = _key_of(raw, made[0].data).rpartition("/")[0]
    for name in ("Mem-B.MD", "notes of mine.md", "mem-b~.md", ".mem-b.md.swp", "mem-b.md~", "4913"):
        raw.write(f"{place}/{name}", b"by hand")
    found = list(backend.entries("d"))
    assert [each.id for each in found if isinstance(each, Stored)] == ["mem-a", "mem-c"]
    bad = [each for each in found if isinstance(each, Unreadable)]
    assert sorted(each.path.rpartition("/")[2] for each in bad) == ["Mem-B.MD", "mem-b~.md", "notes of mine.md"]
    assert all(each.reason for each in bad)


@pytest.mark.requirement("store:hand:edit")
def test_an_edit_by_hand_is_served_shows_in_the_stamp_and_is_never_overwritten_unseen(
    backend: Store, raw: Raw | None
) -> None:
    if raw is None:
        pytest.skip("the backend keeps no bytes behind its back")
    first, second = chain("mem-a", 1, 2)
    write(backend, "d", first)
    before = stamps(backend, "d")
    edited = text("mem-a", 1, "a person wrote this, and it is longer")
    raw.write(_key_of(raw, first.data), edited)
    assert backend.read("d", "mem-a") == edited
    assert stamps(backend, "d") != before
    backend.stage("d", [second])
    with pytest.raises(ConflictError):
        backend.publish("d", [second])
    write(backend, "d", new("mem-a", 2, after=edited))
    assert backend.read("d", "mem-a", 1) == edited


@pytest.mark.requirement("store:hand:made")
def test_a_file_that_was_made_by_hand_without_a_number_is_kept_as_the_first_version(
    backend: Store, raw: Raw | None
) -> None:
    if raw is None:
        pytest.skip("the backend keeps no bytes behind its back")
    neighbour = new("mem-a")
    write(backend, "d", neighbour)
    made = b"# No frontmatter\n\nversion: 7 is in the text\n"
    raw.write(_key_of(raw, neighbour.data).replace("mem-a", "mem-b"), made)
    assert ids(backend, "d") == ["mem-a", "mem-b"]
    write(backend, "d", new("mem-b", 2, after=made))
    assert backend.earlier_versions("d", "mem-b") == [1]
    assert backend.read("d", "mem-b", 1) == made
