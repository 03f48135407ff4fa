"""A write is whole or absent, compared before it is swapped, and a written version never changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amem_conformance.suite.store._making import chain, digest, ids, new, stamps, text, write
from amem_core.errors import AmemError, ConflictError, InvalidError, NotFoundError
from amem_core.ports.store import NewVersion, StagedVersion, Store


@pytest.mark.requirement("store:stage:invisible")
def test_what_is_staged_is_neither_read_nor_listed(backend: Store) -> None:
    backend.stage("d", [new("mem-a")])
    with pytest.raises(NotFoundError):
        backend.read("d", "mem-a")
    assert ids(backend, "d") == []
    assert backend.domains() == []
    assert backend.earlier_versions("d", "mem-a") == []


@pytest.mark.requirement("store:stage:invisible")
def test_a_staged_version_leaves_the_current_one_in_its_place(backend: Store) -> None:
    first, second = chain("mem-a", 1, 2)
    write(backend, "d", first)
    backend.stage("d", [second])
    assert backend.read("d", "mem-a") == first.data
    assert backend.earlier_versions("d", "mem-a") == []


@pytest.mark.requirement("store:stage:listed")
def test_what_is_staged_is_told_by_id_and_version_after_a_reopening(
    backend: Store, reopen: Callable[[], Store]
) -> None:
    made = [new("mem-b", 10), new("mem-a", 2), new("mem-b", 9), new("mem-a-b", 1)]
    backend.stage("d", made)
    again = reopen()
    wanted = sorted((v.id, v.version, v.digest) for v in made)
    assert again.staged("d") == [StagedVersion(*each) for each in wanted]
    assert [again.read_staged("d", v.id, v.version) for v in made] == [v.data for v in made]
    assert again.staged("other") == []


@pytest.mark.requirement("store:stage:again")
def test_staging_the_same_again_changes_nothing(backend: Store) -> None:
    version = new("mem-a")
    backend.stage("d", [version])
    backend.stage("d", [version])
    assert backend.staged("d") == [StagedVersion("mem-a", 1, version.digest)]
    assert backend.read_staged("d", "mem-a", 1) == version.data


@pytest.mark.requirement("store:stage:again")
def test_staging_the_same_version_with_other_bytes_replaces_what_was_staged(backend: Store) -> None:
    backend.stage("d", [new("mem-a", 1, body="first"), new("mem-a", 11, body="a neighbour by name")])
    other = new("mem-a", 1, body="second")
    backend.stage("d", [other])
    assert backend.read_staged("d", "mem-a", 1) == other.data
    assert [(v.version, v.digest == other.digest) for v in backend.staged("d")] == [(1, True), (11, False)]


@pytest.mark.requirement("store:stage:discard")
def test_discarding_removes_what_is_staged_and_nothing_else(backend: Store) -> None:
    backend.stage("d", [new("mem-a", 1), new("mem-a", 11), new("mem-ab", 1)])
    backend.discard("d", "mem-a", 1)
    backend.discard("d", "mem-a", 1)
    backend.discard("other", "mem-a", 1)
    assert [(v.id, v.version) for v in backend.staged("d")] == [("mem-a", 11), ("mem-ab", 1)]
    with pytest.raises(NotFoundError):
        backend.publish("d", [new("mem-a", 1)])


@pytest.mark.requirement("store:stage:missing")
@pytest.mark.parametrize(("id", "version"), [("mem-b", 1), ("mem-a", 2)])
def test_reading_what_is_not_staged_says_so(backend: Store, id: str, version: int) -> None:
    backend.stage("d", [new("mem-a", 1)])
    with pytest.raises(NotFoundError):
        backend.read_staged("d", id, version)


@pytest.mark.requirement("store:stage:digest")
def test_bytes_that_are_not_those_of_their_digest_are_refused_and_none_is_staged(backend: Store) -> None:
    good = new("mem-a")
    with pytest.raises(InvalidError):
        backend.stage("d", [good, new("mem-b")._replace(digest=good.digest)])
    assert backend.staged("d") == []


@pytest.mark.requirement("store:publish:bytes")
@pytest.mark.parametrize(
    "body",
    [b"", b"\x00\xff\xfe no text at all", b"line\r\nline\r", "\u7528\u6237 \U0001f600".encode(), b"x" * 5_000_000],
    ids=["empty", "binary", "line-ends", "wide", "large"],
)
def test_the_bytes_that_are_read_are_the_bytes_that_were_written(
    backend: Store, reopen: Callable[[], Store], body: bytes
) -> None:
    data = text("mem-a", 1) + body
    write(backend, "d", NewVersion("mem-a", 1, data, digest(data), None))
    assert backend.read("d", "mem-a") == data
    assert reopen().read("d", "mem-a") == data


@pytest.mark.requirement("store:publish:current")
def test_a_published_version_is_current_and_no_longer_staged(backend: Store) -> None:
    first, second = chain("mem-a", 1, 2)
    write(backend, "d", first, second)
    assert backend.read("d", "mem-a") == second.data
    assert backend.staged("d") == []
    assert backend.earlier_versions("d", "mem-a") == [1]


@pytest.mark.requirement("store:publish:durable")
def test_published_versions_are_there_after_a_reopening(backend: Store, reopen: Callable[[], Store]) -> None:
    first, second = chain("mem-a", 1, 2)
    write(backend, "d", first, second)
    again = reopen()
    assert again.read("d", "mem-a") == second.data
    assert again.read("d", "mem-a", 1) == first.data
    assert ids(again, "d") == ["mem-a"]


@pytest.mark.requirement("store:read:own-writes")
def test_a_write_is_read_at_once_here_and_by_another_instance(backend: Store, second: Callable[[], Store]) -> None:
    other = second()
    assert ids(other, "d") == []
    for version in chain("mem-a", 1, 2, 3):
        write(backend, "d", version)
        assert backend.read("d", "mem-a") == other.read("d", "mem-a") == version.data
    assert ids(other, "d") == ["mem-a"]
    assert other.earlier_versions("d", "mem-a") == [1, 2]
    write(other, "d", new("mem-b"))
    assert ids(backend, "d") == ["mem-a", "mem-b"]


@pytest.mark.requirement("store:publish:group")
def test_a_group_is_published_together(backend: Store) -> None:
    old, changed = chain("mem-0", 1, 2)
    write(backend, "d", old)
    made = [new(f"mem-{n}") for n in range(1, 100)]
    backend.stage("d", [*made, changed])
    backend.publish("d", [*made, changed])
    assert len(ids(backend, "d")) == 100
    assert backend.read("d", "mem-0") == changed.data
    assert backend.staged("d") == []
    backend.stage("d", [])
    backend.publish("d", [])


@pytest.mark.requirement("store:publish:group")
def test_versions_of_one_id_in_a_group_are_published_one_after_the_other(backend: Store) -> None:
    made = chain("mem-a", 1, 2, 3)
    backend.stage("d", made)
    backend.publish("d", made)
    assert backend.read("d", "mem-a") == made[-1].data
    assert [backend.read("d", "mem-a", n) for n in backend.earlier_versions("d", "mem-a")] == [
        made[0].data,
        made[1].data,
    ]


@pytest.mark.requirement("store:publish:staged-bytes")
def test_what_is_published_is_what_was_staged_and_not_what_the_call_carries(backend: Store) -> None:
    version = new("mem-a")
    backend.stage("d", [version])
    backend.publish("d", [version._replace(data=b"")])
    assert backend.read("d", "mem-a") == version.data


@pytest.mark.requirement("store:publish:not-staged")
def test_publishing_what_is_not_staged_is_refused(backend: Store) -> None:
    first, second = chain("mem-a", 1, 2)
    write(backend, "d", first)
    with pytest.raises(NotFoundError):
        backend.publish("d", [second])
    backend.stage("d", [new("mem-a", 2, after=first.data, body="other bytes")])
    with pytest.raises(NotFoundError):
        backend.publish("d", [second])
    with pytest.raises(NotFoundError):
        backend.publish("empty", [first])
    assert backend.read("d", "mem-a") == first.data


def _refused(store: Store, version: NewVersion) -> None:
    """Check that the version is a conflict, that nothing changed, and that it stays staged."""
    before = (store.read("d", "mem-a"), store.earlier_versions("d", "mem-a"))
    store.stage("d", [version])
    with pytest.raises(ConflictError):
        store.publish("d", [version])
    assert (store.read("d", "mem-a"), store.earlier_versions("d", "mem-a")) == before
    assert store.read_staged("d", version.id, version.version) == version.data


@pytest.mark.requirement("store:publish:compare-and-swap")
def test_replacing_what_is_not_current_is_refused(backend: Store) -> None:
    first, second = chain("mem-a", 1, 2)
    write(backend, "d", first, second)
    _refused(backend, new("mem-a", 3, after=first.data))
    _refused(backend, new("mem-a", 3, after=b"what was never written"))
    write(backend, "d", new("mem-a", 3, after=second.data))


@pytest.mark.requirement("store:publish:compare-and-swap")
def test_creating_what_is_there_is_refused(backend: Store) -> None:
    write(backend, "d", new("mem-a"))
    _refused(backend, new("mem-a", 2))


@pytest.mark.requirement("store:publish:compare-and-swap")
def test_replacing_what_is_not_there_is_refused(backend: Store) -> None:
    version = new("mem-a", 2, after=b"never written")
    backend.stage("d", [version])
    with pytest.raises(ConflictError):
        backend.publish("d", [version])
    assert ids(backend, "d") == []


@pytest.mark.requirement("store:publish:immutable")
def test_a_number_that_was_written_takes_no_other_bytes(backend: Store) -> None:
    made = chain("mem-a", 1, 4, 9)
    write(backend, "d", *made)
    for number in (1, 4, 9):
        _refused(backend, new("mem-a", number, after=made[-1].data, body="other bytes"))
    assert backend.read("d", "mem-a", 1) == made[0].data


@pytest.mark.requirement("store:publish:repeat")
def test_publishing_what_is_current_changes_nothing_and_needs_no_staging(
    backend: Store, second: Callable[[], Store]
) -> None:
    made = chain("mem-a", 1, 2)
    write(backend, "d", *made)
    before = stamps(backend, "d")
    for store in (backend, second()):
        store.publish("d", [made[1]])
        store.stage("d", [made[1]])
        store.publish("d", [made[1]])
        assert store.read("d", "mem-a") == made[1].data
        assert store.earlier_versions("d", "mem-a") == [1]
        assert stamps(store, "d") == before


@pytest.mark.requirement("store:publish:resume")
def test_a_group_that_was_cut_short_is_completed_by_publishing_it_again(
    backend: Store, reopen: Callable[[], Store]
) -> None:
    old, changed = chain("mem-c", 1, 2)
    write(backend, "d", old)
    made = [new("mem-a"), changed, new("mem-b")]
    backend.stage("d", made)
    backend.publish("d", made[:2])
    again = reopen()
    assert [v.id for v in again.staged("d")] == ["mem-b"]
    again.publish("d", made)
    assert [again.read("d", v.id) for v in made] == [v.data for v in made]
    assert again.earlier_versions("d", "mem-c") == [1]
    assert again.staged("d") == []


@pytest.mark.requirement("store:publish:resume")
def test_a_group_with_a_conflict_leaves_every_entry_whole(backend: Store) -> None:
    first = new("mem-a")
    write(backend, "d", first)
    group = [new("mem-b"), new("mem-a", 2, after=b"another"), new("mem-c")]
    backend.stage("d", group)
    with pytest.raises(ConflictError):
        backend.publish("d", group)
    assert backend.read("d", "mem-a") == first.data
    for version in (group[0], group[2]):
        published = version.id in ids(backend, "d")
        staged = (version.id, 1) in {(v.id, v.version) for v in backend.staged("d")}
        assert published != staged


@pytest.mark.requirement("store:names:refused")
@pytest.mark.parametrize(
    "name", ["../../etc", "con", "nul.md", "a/../../b", "..%2f", "/etc", "", ".", "..", "A", "a\x00b", "a" * 65, ".x"]
)
def test_a_domain_that_could_be_a_path_is_refused_by_every_method(backend: Store, name: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: backend.stage(name, [new("mem-a")]),
        lambda: backend.publish(name, [new("mem-a")]),
        lambda: backend.staged(name),
        lambda: backend.read_staged(name, "mem-a", 1),
        lambda: backend.discard(name, "mem-a", 1),
        lambda: backend.read(name, "mem-a"),
        lambda: backend.earlier_versions(name, "mem-a"),
        lambda: list(backend.entries(name)),
        lambda: backend.erase(name, "mem-a", b"stub", 2),
        lambda: backend.save_mark(name, "erasures", "mem-a", b"receipt"),
        lambda: list(backend.marks(name, "erasures")),
    ]
    for call in calls:
        with pytest.raises(AmemError):
            call()
    assert backend.domains() == []


@pytest.mark.requirement("store:names:refused")
@pytest.mark.parametrize("id", ["../mem-a", "mem-a/../../b", "mem-", "a", "", "mem-a.md", "mem-a\x00", "/mem-a"])
def test_an_id_that_could_be_a_path_is_refused_by_every_method(backend: Store, id: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: backend.stage("d", [new(id)]),
        lambda: backend.publish("d", [new(id)]),
        lambda: backend.read_staged("d", id, 1),
        lambda: backend.discard("d", id, 1),
        lambda: backend.read("d", id),
        lambda: backend.read("d", id, 1),
        lambda: backend.earlier_versions("d", id),
        lambda: backend.erase("d", id, b"stub", 2),
        lambda: backend.save_mark("d", "erasures", id, b"receipt"),
    ]
    for call in calls:
        with pytest.raises(AmemError):
            call()
    assert backend.domains() == []
    assert backend.staged("d") == []
