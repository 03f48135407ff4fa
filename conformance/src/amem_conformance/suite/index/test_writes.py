"""What is applied is visible at once, what is forgotten is gone, and a rebuild gives the same answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from amem_conformance.harness import Raw
from amem_conformance.suite.index._making import DOMAIN, EVERYTHING, ask, day, doc, listed, put
from amem_core.domain.entries import Document
from amem_core.domain.labels import Label, Status
from amem_core.domain.queries import Conditions, Query, ReadFilter
from amem_core.errors import AmemError, InvalidError
from amem_core.ports.index import Index

HISTORY = [
    doc("a", "walrus"),
    doc("a", "walrus carpenter", version=2),
    doc("b", "carpenter", title="walrus"),
    doc("c", "walrus", status=Status.superseded),
    doc("d", "oyster", classification=Label.confidential),
]


def answers(index: Index) -> list[object]:
    """Return what an index says to a number of questions, with scores."""
    texts = ("walrus", "carpenter", "walrus carpenter", "oyster walrus", "oysters")
    found: list[object] = [index.search(Query(text=text, readable=EVERYTHING)) for text in texts]
    found += [index.search(Query(text=text, readable=EVERYTHING, as_of=day(1))) for text in texts]
    found.append(index.select(EVERYTHING, Conditions(statuses=())))
    found.append(index.find("mem-a"))
    return found


@pytest.mark.requirement("index:apply:visible")
def test_what_is_applied_is_visible_when_it_returns_to_every_instance(
    backend: Index, second: Callable[[], Index]
) -> None:
    other = second()
    put(backend, doc("a", "walrus"))
    assert ask(backend, "walrus") == ask(other, "walrus") == ["a"]
    put(other, doc("b", "walrus"))
    assert ask(backend, "walrus") == ["a", "b"]


@pytest.mark.requirement("index:apply:durable")
def test_what_is_applied_is_there_after_a_reopen(backend: Index, reopen: Callable[[], Index]) -> None:
    put(backend, doc("a", "walrus"), through=7)
    again = reopen()
    assert ask(again, "walrus") == ["a"]
    assert again.watermark(DOMAIN) == 7


@pytest.mark.requirement("index:apply:again")
def test_applying_a_version_again_replaces_it(backend: Index) -> None:
    put(backend, doc("a", "walrus"), doc("b", "walrus"))
    put(backend, doc("a", "carpenter"), through=2)
    put(backend, doc("a", "carpenter"), through=2)
    assert ask(backend, "walrus") == ["b"]
    assert ask(backend, "carpenter") == ["a"]
    assert listed(backend, order="id") == ["a", "b"]


@pytest.mark.requirement("index:apply:again")
def test_applying_an_earlier_version_again_replaces_that(backend: Index) -> None:
    put(backend, doc("a", "walrus"), doc("a", "carpenter", version=2))
    put(backend, doc("a", "oyster"))
    assert ask(backend, "carpenter") == ["a"]
    assert ask(backend, "oyster") == []
    assert ask(backend, "oyster", as_of=day(1)) == ["a"]
    assert ask(backend, "walrus", as_of=day(1)) == []


@pytest.mark.requirement("index:apply:whole")
def test_a_refused_apply_changes_nothing(backend: Index) -> None:
    put(backend, doc("a", "walrus"), through=1)
    with pytest.raises(InvalidError, match="domain"):
        backend.apply(DOMAIN, [doc("b", "walrus"), doc("c", "walrus", domain="other")], through=2)
    assert ask(backend, "walrus") == ["a"]
    assert backend.watermark(DOMAIN) == 1


@pytest.mark.requirement("index:watermark:last")
def test_the_watermark_is_that_of_the_last_write_of_the_domain(backend: Index) -> None:
    assert backend.watermark(DOMAIN) == 0
    backend.apply(DOMAIN, [], through=3)
    put(backend, doc("a"), through=5)
    put(backend, doc("b", domain="other"), through=9)
    assert (backend.watermark(DOMAIN), backend.watermark("other"), backend.watermark("third")) == (5, 9, 0)
    backend.rebuild(DOMAIN, [], through=2)
    assert (backend.watermark(DOMAIN), backend.watermark("other")) == (2, 9)


@pytest.mark.requirement("index:rebuild:same-answers")
def test_a_rebuild_gives_the_same_answers_as_the_writes(backend: Index, reopen: Callable[[], Index]) -> None:
    put(backend, doc("gone", "walrus carpenter oyster"), doc("d", "other text entirely"))
    backend.forget(DOMAIN, "mem-gone", None)
    for document in HISTORY:
        put(backend, document)
    before = answers(backend)
    assert backend.rebuild(DOMAIN, iter(HISTORY), through=1) == len(HISTORY)
    assert answers(backend) == before
    assert answers(reopen()) == before


@pytest.mark.requirement("index:rebuild:replaces")
def test_a_rebuild_replaces_its_own_domain_and_no_other(backend: Index) -> None:
    put(backend, doc("a", "walrus"), doc("b", "walrus", domain="other"))
    assert backend.rebuild(DOMAIN, [doc("c", "walrus")], through=4) == 1
    both = ReadFilter({DOMAIN: Label.restricted, "other": Label.restricted})
    assert sorted(ask(backend, "walrus", both)) == ["b", "c"]
    assert backend.find("mem-a") is None
    assert backend.rebuild(DOMAIN, [], through=5) == 0
    assert ask(backend, "walrus", both) == ["b"]


@pytest.mark.requirement("index:rebuild:whole")
def test_readers_see_the_old_state_until_a_rebuild_is_whole(backend: Index, second: Callable[[], Index]) -> None:
    put(backend, doc("old", "walrus"), through=3)
    other = second()
    seen: list[object] = []

    def documents() -> Iterator[Document]:
        for number in range(600):
            if number % 100 == 0:
                seen.append((ask(backend, "walrus"), listed(other), other.find("mem-n0001"), other.watermark(DOMAIN)))
            yield doc(f"n{number:04}", "walrus")

    assert backend.rebuild(DOMAIN, documents(), through=9) == 600
    assert seen == [(["old"], ["old"], None, 3)] * 6
    assert ask(other, "walrus", limit=2) == ["n0000", "n0001"]
    assert len(listed(other, limit=1000)) == 600


@pytest.mark.requirement("index:rebuild:failed")
def test_a_rebuild_that_fails_leaves_the_old_state(backend: Index) -> None:
    put(backend, doc("old", "walrus"), through=3)

    def documents() -> Iterator[Document]:
        for number in range(600):
            yield doc(f"n{number:04}", "walrus")
        message = "the store went away"
        raise RuntimeError(message)

    with pytest.raises(RuntimeError, match="went away"):
        backend.rebuild(DOMAIN, documents(), through=9)
    assert ask(backend, "walrus") == listed(backend) == ["old"]
    assert backend.watermark(DOMAIN) == 3
    assert backend.rebuild(DOMAIN, [doc("new", "walrus")], through=9) == 1
    assert ask(backend, "walrus") == ["new"]


@pytest.mark.requirement("index:rebuild:write-in-the-middle")
def test_what_is_written_during_a_rebuild_survives_it(backend: Index, second: Callable[[], Index]) -> None:
    other = second()
    put(backend, doc("a", "walrus"), doc("b", "walrus"), doc("c", "walrus"))

    def documents() -> Iterator[Document]:
        yield doc("a", "walrus")
        put(other, doc("b", "walrus carpenter", version=2), doc("z", "walrus carpenter"), through=2)
        other.forget(DOMAIN, "mem-c", None)
        assert ask(backend, "carpenter") == ["b", "z"]
        yield doc("b", "walrus")
        yield doc("c", "walrus")

    backend.rebuild(DOMAIN, documents(), through=1)
    assert sorted(ask(backend, "walrus")) == ["a", "b", "z"]
    assert ask(backend, "carpenter") == ["b", "z"]
    assert backend.find("mem-c") is None
    assert ask(backend, "walrus", as_of=day(1)) == ask(other, "walrus", as_of=day(1))


@pytest.mark.requirement("index:rebuild:history")
def test_a_rebuild_takes_every_version_with_its_times(backend: Index) -> None:
    versions = [doc("a", f"word{number}", version=number) for number in range(1, 8)]
    assert backend.rebuild(DOMAIN, [*versions, doc("b", "word3")], through=1) == 8
    assert ask(backend, "word3") == ["b"]
    assert ask(backend, "word7") == ["a"]
    assert ask(backend, "word3", as_of=day(3.5)) == ["a", "b"]


@pytest.mark.requirement("index:forget:gone")
def test_a_forgotten_id_is_gone_in_every_version(backend: Index, reopen: Callable[[], Index]) -> None:
    put(backend, doc("a", "walrus"), doc("a", "carpenter", version=2), doc("b", "walrus"))
    assert backend.forget(DOMAIN, "mem-a", None)
    instances: list[Callable[[], Index]] = [lambda: backend, reopen]
    for instance in instances:
        index = instance()
        assert index.find("mem-a") is None
        assert ask(index, "carpenter") == []
        assert ask(index, "walrus", as_of=day(1)) == ["b"]
        assert listed(index, only={"statuses": ()}, as_of=day(2)) == ["b"]


@pytest.mark.requirement("index:forget:keep")
def test_what_is_kept_of_a_forgotten_id_answers_in_its_place(backend: Index) -> None:
    put(backend, doc("a", "walrus"), doc("a", "carpenter", version=2))
    tombstone = doc("a", title="erased", version=3, status=Status.erased)
    assert backend.forget(DOMAIN, "mem-a", tombstone)
    found = backend.find("mem-a")
    assert found is not None
    assert (found.version, found.status, found.title) == (3, Status.erased, "erased")
    assert listed(backend, only={"statuses": ()}) == ["a"]
    assert listed(backend, only={"statuses": ()}, as_of=day(2)) == []


@pytest.mark.requirement("index:forget:unknown")
def test_forgetting_what_is_not_there_changes_nothing(backend: Index) -> None:
    put(backend, doc("a", "walrus"), through=4)
    assert backend.forget(DOMAIN, "mem-b", None)
    assert backend.forget("elsewhere", "mem-b", None)
    assert ask(backend, "walrus") == ["a"]
    assert backend.watermark(DOMAIN) == 4


@pytest.mark.requirement("index:forget:bytes")
@pytest.mark.parametrize("neighbours", [0, 300])
def test_the_bytes_of_a_forgotten_id_leave_the_files(backend: Index, raw: Raw | None, neighbours: int) -> None:
    put(backend, *[doc(f"n{number:03}", f"filler number {number} " * 30) for number in range(neighbours)])
    for version in range(1, 4):
        secret = doc(
            "a", f"zqsecretword{version} " * 200, version=version, title="zqsecrettitle", tags=("zqsecrettag",)
        )
        put(backend, secret)
    assert backend.forget(DOMAIN, "mem-a", doc("a", version=4, status=Status.erased))
    left = [key for key, data in (raw.blobs() if raw is not None else ()) if b"zqsecret" in data.lower()]
    assert left == []
    assert len(listed(backend, limit=1000)) == neighbours


@pytest.mark.requirement("index:damage:no-empty-answer")
def test_damaged_bytes_are_an_error_or_a_right_answer_and_a_rebuild_mends_them(
    backend: Index, raw: Raw | None, reopen: Callable[[], Index]
) -> None:
    documents = [doc(f"n{number:03}", f"walrus number {number} " * 20) for number in range(200)]
    put(backend, *documents, through=5)
    whole = ask(backend, "walrus", limit=300)
    backend.close()
    if raw is None:
        return  # It keeps no bytes that could be damaged.
    for key, data in list(raw.blobs()):
        for damaged in (b"not what it was", data[: len(data) // 2], b"\x00" * len(data), b""):
            raw.write(key, damaged)
            index = reopen()
            # An index that knows nothing says so by its watermark, and is rebuilt by who follows the log.
            assert _answer_or_hint(index) in (whole, "told") or index.watermark(DOMAIN) == 0
            assert index.rebuild(DOMAIN, documents, through=5) == len(documents)
            assert ask(index, "walrus", limit=300) == whole
            index.close()


def _answer_or_hint(index: Index) -> object:
    try:
        return ask(index, "walrus", limit=300)
    except AmemError as error:
        return error.hint and "told"


@pytest.mark.requirement("index:close:idempotent")
def test_close_may_be_called_twice_and_what_comes_after_is_an_error(backend: Index) -> None:
    put(backend, doc("a", "walrus"))
    backend.close()
    backend.close()
    with pytest.raises(AmemError, match="closed"):
        ask(backend, "walrus")
    with pytest.raises(AmemError, match="closed"):
        put(backend, doc("b"))


@pytest.mark.requirement("index:scale:thousands")
def test_thousands_of_entries_are_listed_and_searched(backend: Index) -> None:
    documents = (doc(f"n{number:05}", f"walrus number{number}") for number in range(3000))
    assert backend.rebuild(DOMAIN, documents, through=1) == 3000
    assert ask(backend, "number2718") == ["n02718"]
    assert len(listed(backend, limit=5000)) == 3000
    assert len(ask(backend, "walrus", limit=5000)) == 3000
