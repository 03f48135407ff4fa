"""Many processes and threads on one index in Tantivy, processes that are killed, and erasure while others look."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amem_conformance.suite.index._making import DOMAIN, EVERYTHING, ask, day, doc, listed, put
from amem_core.domain.entries import Document
from amem_core.domain.labels import Label, Status
from amem_core.domain.queries import Query, ReadFilter
from amem_core.errors import UnavailableError
from amem_index.config import TantivySettings
from amem_index.tantivy import _catalog
from amem_index.tantivy._engine import Writer
from amem_index.tantivy.index import TantivyIndex, open_index

SETTINGS = TantivySettings(pending=10, busy_seconds=20.0)
PATIENCE = 120
# What a process of its own begins with.
PREAMBLE = """
import os, signal, sys, time
from amem_conformance.suite.index._making import *
from amem_core.domain.labels import Label, Status
from amem_core.domain.queries import ReadFilter
from amem_index.config import TantivySettings
from amem_index.tantivy import _catalog, _engine, _folding
from amem_index.tantivy.index import open_index
root = sys.argv[1]
index = open_index(root, TantivySettings(pending=10, busy_seconds=20.0))
"""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[], TantivyIndex]]:
    instances: list[TantivyIndex] = []

    def another() -> TantivyIndex:
        instances.append(open_index(str(tmp_path), SETTINGS))
        return instances[-1]

    yield another
    for instance in instances:
        instance.close()


def started(root: Path, code: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + code, str(root)], env=environment, text=True, stdout=subprocess.PIPE
    )


def ended(process: subprocess.Popen[str]) -> int:
    process.communicate(timeout=PATIENCE)
    return process.returncode


def state(root: Path) -> dict[str, list[str]]:
    """Return the directories of each domain, by name."""
    top = root / "state" / "tantivy"
    return {place.name: sorted(path.name for path in place.iterdir()) for place in top.iterdir() if place.is_dir()}


def scores(index: TantivyIndex, text: str) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in index.search(Query(text=text, readable=EVERYTHING, limit=200))]


KILLED_AT = {
    "before anything is written": "_engine.Writer.add = lambda *_: os.kill(os.getpid(), signal.SIGKILL)",
    "before the commit": "_engine.Writer.commit = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)",
    "after the commit": (
        "commit = _engine.Writer.commit\n"
        "_engine.Writer.commit = lambda *a, **k: (commit(*a, **k), os.kill(os.getpid(), signal.SIGKILL))"
    ),
    "before the catalog tells of it": "_catalog.folded = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)",
    "inside the transaction that tells of it": (
        "folded = _catalog.folded\n"
        "_catalog.folded = lambda *a, **k: (folded(*a, **k), os.kill(os.getpid(), signal.SIGKILL))"
    ),
}


@pytest.mark.parametrize("fold", ["the first", "a later one", "one with removals"])
@pytest.mark.parametrize("moment", list(KILLED_AT))
def test_a_process_that_is_killed_while_it_takes_in_loses_nothing_and_doubles_nothing(
    tmp_path: Path, opened: Callable[[], TantivyIndex], moment: str, fold: str
) -> None:
    kept: dict[tuple[str, int], Document] = {}

    def keep(document: Document) -> Document:
        kept[document.entry.id, document.entry.version] = document
        return document

    index = opened()
    if fold != "the first":
        put(index, *[keep(doc(f"a{number}", "walrus carpenter")) for number in range(12)], through=1)
        assert len(ask(index, "walrus", limit=100)) == 12
    version = 2 if fold == "one with removals" else 1
    name = "a" if fold == "one with removals" else "b"
    code = f"""
{KILLED_AT[moment]}
put(index, *[doc(f"{name}{{number}}", "walrus oyster", version={version}) for number in range(10)], through=2)
"""
    assert ended(started(tmp_path, code)) == -signal.SIGKILL
    for number in range(10):
        keep(doc(f"{name}{number}", "walrus oyster", version=version))
    for instance in (index, opened()):
        assert sorted(ask(instance, "walrus", limit=100)) == sorted({id.removeprefix("mem-") for id, _ in kept})
        assert len(ask(instance, "oyster", limit=100)) == 10
        assert instance.watermark(DOMAIN) == 2
    other = open_index(str(tmp_path / "other"), TantivySettings(pending=1000))
    put(other, *kept.values())
    assert scores(index, "walrus oyster") == scores(other, "walrus oyster")
    # The next one does what was cut short, once.
    put(index, *[keep(doc(f"c{number}", "walrus")) for number in range(10)], through=3)
    put(other, *[doc(f"c{number}", "walrus") for number in range(10)])
    assert scores(index, "walrus oyster") == scores(other, "walrus oyster")
    assert scores(opened(), "walrus oyster") == scores(other, "walrus oyster")
    assert index.rebuild(DOMAIN, [kept[key] for key in sorted(kept)], through=3) == len(kept)
    assert scores(index, "walrus oyster") == scores(other, "walrus oyster")
    assert len(list(tmp_path.glob(f"state/tantivy/{DOMAIN}/*/meta.json"))) == 1
    other.close()


def test_a_lock_that_a_killed_process_held_is_free(tmp_path: Path, opened: Callable[[], TantivyIndex]) -> None:
    holding = started(
        tmp_path,
        """
put(index, doc("a", "walrus"))
path = index._folds._make("main")[1]
writer = _engine.Writer(path, 16 << 20)
with index._folds.alone("main", 1), index._catalog.writing(), index._catalog.locked("rebuild", 1):
    print("holding", flush=True)
    time.sleep(600)
""",
    )
    assert holding.stdout is not None
    assert holding.stdout.readline() == "holding\n"
    impatient = open_index(str(tmp_path), TantivySettings(pending=10, busy_seconds=0.05))
    with pytest.raises(UnavailableError, match="held by another writer"):
        put(impatient, doc("b", "walrus"))
    assert ask(impatient, "walrus") == ["a"]
    holding.kill()
    holding.communicate(timeout=PATIENCE)
    put(impatient, *[doc(f"b{number}", "walrus") for number in range(20)])
    assert len(ask(impatient, "walrus", limit=100)) == 21
    assert impatient.rebuild(DOMAIN, [doc("a", "walrus")], through=2) == 1
    impatient.close()


def test_a_fold_by_somebody_else_holds_no_writer_up(tmp_path: Path, opened: Callable[[], TantivyIndex]) -> None:
    index = opened()
    put(index, doc("n0", "walrus"))
    with opened()._folds.alone(DOMAIN, 1):
        for number in range(1, 30):
            put(index, doc(f"n{number}", "walrus"))
    assert state(tmp_path) == {}
    assert len(ask(index, "walrus", limit=100)) == 30
    put(index, doc("n30", "walrus"))
    assert len(state(tmp_path)[DOMAIN]) == 1


WRITING = """
for number in range(120):
    put(index, doc(f"NAME{number % 40}", f"walrus {number}", version=1 + number // 40), through=number + 1)
    print(number, flush=True)
"""


def test_processes_that_write_and_read_at_once_see_every_acknowledged_entry_once(
    tmp_path: Path, opened: Callable[[], TantivyIndex]
) -> None:
    index = opened()
    # Threads as well, since all of a process's share what it remembers.
    writers = [started(tmp_path, WRITING.replace("NAME", name)) for name in "xy"]
    acknowledged = {"x": -1, "y": -1}
    faults: list[str] = []

    def follow(name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                acknowledged[name] = int(line)

    def read() -> None:
        while any(process.poll() is None for process in writers):
            known = dict(acknowledged)
            found = ask(index, "walrus", limit=200)
            listing = listed(index, limit=200)
            wanted = sum(min(40, last + 1) for last in known.values())
            if len(found) != len(set(found)) or len(found) < wanted or len(listing) < wanted:
                faults.append(f"{known}: {len(found)} found, {len(set(found))} different, {len(listing)} listed")

    threads = [threading.Thread(target=follow, args=pair) for pair in zip("xy", writers, strict=True)]
    threads += [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert [process.wait(PATIENCE) for process in writers] == [0, 0]
    assert faults == []
    assert len(ask(index, "walrus", limit=200)) == 80
    assert len(ask(index, "walrus", limit=200, as_of=day(1.5))) == 80
    assert {hit.version for hit in index.search(Query(text="walrus", readable=EVERYTHING, limit=200))} == {3}
    rebuilt = opened()
    before = scores(rebuilt, "walrus 117")
    documents = [
        doc(f"{name}{number % 40}", f"walrus {number}", version=1 + number // 40)
        for name in "xy"
        for number in sorted(range(120), key=lambda number: (number % 40, number))
    ]
    rebuilt.rebuild(DOMAIN, documents, through=120)
    assert scores(rebuilt, "walrus 117") == before


READING = """
print("ready", flush=True)
until = time.monotonic() + 60
sizes = set()
while not os.path.exists(os.path.join(root, "stop")) and time.monotonic() < until:
    found = ask(index, "walrus", limit=3000)
    sizes.add((len(found), len(set(found)), len(listed(index, limit=3000))))
print(sorted(sizes), flush=True)
"""


def test_a_reader_in_another_process_sees_the_old_state_or_the_new_one_while_rebuilds_go_on(
    tmp_path: Path, opened: Callable[[], TantivyIndex]
) -> None:
    index = opened()
    index.rebuild(DOMAIN, [doc(f"n{number}", "walrus") for number in range(100)], through=1)
    readers = [started(tmp_path, READING) for _ in range(2)]
    for reader in readers:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
    for turn in range(6):
        count = 500 if turn % 2 else 900
        index.rebuild(DOMAIN, [doc(f"n{number}", "walrus") for number in range(count)], through=turn + 2)
    (tmp_path / "stop").touch()
    for reader in readers:
        out, _ = reader.communicate(timeout=PATIENCE)
        assert reader.returncode == 0
        # What is listed is another look, so it may be of the next state.
        assert all(
            found == different and {found, listing} <= {100, 500, 900} for found, different, listing in eval(out)
        ), out


def bytes_of(root: Path, needle: bytes) -> list[str]:
    return [
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and needle in path.read_bytes().lower()
    ]


def test_what_is_forgotten_leaves_tantivys_files_and_takes_no_neighbour_along(
    tmp_path: Path, opened: Callable[[], TantivyIndex]
) -> None:
    index = opened()
    put(index, *[doc(f"n{number}", f"walrus number{number}") for number in range(30)], through=1)
    for version in range(1, 4):
        put(index, doc("a", f"zqsecret{version}", version=version, tags=("zqsecrettag",)), through=2)
        put(index, *[doc(f"m{version}-{number}", "walrus") for number in range(10)], through=2)
    (before,) = state(tmp_path)[DOMAIN]
    assert bytes_of(tmp_path, b"zqsecret") != []
    assert index.forget(DOMAIN, "mem-a", doc("a", version=4, status=Status.erased)) is True
    assert bytes_of(tmp_path, b"zqsecret") == []
    (after,) = state(tmp_path)[DOMAIN]
    assert after != before
    assert len(ask(index, "walrus", limit=100)) == 60
    assert ask(index, "number17") == ["n17"]
    for text in ("zqsecret1", "zqsecret3", "zqsecrettag"):
        assert ask(index, text) == ask(index, text, as_of=day(2), only={"statuses": ()}) == []


@pytest.mark.parametrize("keep", [None, doc("a", version=2, status=Status.erased)], ids=["nothing", "a stub"])
def test_forget_says_that_a_reader_still_holds_the_bytes_and_succeeds_once_it_has_looked_again(
    tmp_path: Path, opened: Callable[[], TantivyIndex], keep: Document | None
) -> None:
    index, reader = opened(), opened()
    put(index, *[doc(f"n{number}", "walrus") for number in range(20)], doc("a", "walrus zqsecret"))
    assert len(ask(reader, "walrus", limit=100)) == 21
    assert index.forget(DOMAIN, "mem-a", keep) is False
    # Out of reach, but a process has them open.
    assert bytes_of(tmp_path, b"zqsecret") == []
    assert index.forget(DOMAIN, "mem-a", keep) is False
    assert len(ask(reader, "walrus", limit=100)) == 20
    assert index.forget(DOMAIN, "mem-a", keep) is True
    assert len(state(tmp_path)[DOMAIN]) == 1
    assert (index.find("mem-a") is not None) == (keep is not None)


def test_what_is_forgotten_while_it_is_being_taken_in_leaves_the_files_all_the_same(
    tmp_path: Path, opened: Callable[[], TantivyIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    index, other = opened(), opened()
    outcome: list[bool] = []
    commit = Writer.commit
    forgetting = threading.Thread(target=lambda: outcome.append(other.forget(DOMAIN, "mem-a", None)))

    def slow(self: Writer, fold: int, *, removed: bool) -> None:
        if not forgetting.ident:
            forgetting.start()
            # Until the other has forgotten in the catalog, and waits for its turn here.
            while index.find("mem-a") is not None:
                time.sleep(0.001)
        commit(self, fold, removed=removed)

    monkeypatch.setattr(Writer, "commit", slow)
    put(index, doc("a", "zqsecret"), *[doc(f"n{number}", "walrus") for number in range(9)])
    forgetting.join(PATIENCE)
    assert outcome == [True]
    assert bytes_of(tmp_path, b"zqsecret") == []
    assert len(ask(index, "walrus", limit=100)) == 9


def test_what_is_forgotten_during_a_rebuild_is_not_known_to_be_gone_until_that_has_ended(
    tmp_path: Path, opened: Callable[[], TantivyIndex]
) -> None:
    index, other = opened(), opened()
    put(index, doc("a", "zqsecret"), doc("b", "walrus"), *[doc(f"n{number}", "walrus") for number in range(20)])
    said: list[bool] = []

    def documents() -> Iterator[Document]:
        yield doc("a", "zqsecret")
        yield from (doc(f"n{number:04}", "walrus") for number in range(600))
        said.append(other.forget(DOMAIN, "mem-a", None))
        yield doc("b", "walrus")

    index.rebuild(DOMAIN, documents(), through=2)
    assert said == [False]
    assert index.find("mem-a") is None
    assert ask(index, "zqsecret") == []
    assert other.forget(DOMAIN, "mem-a", None) is True
    assert bytes_of(tmp_path, b"zqsecret") == []
    assert len(ask(other, "walrus", limit=1000)) == 601


def test_a_rebuild_that_was_killed_leaves_nothing_that_answers_or_stays(
    tmp_path: Path, opened: Callable[[], TantivyIndex]
) -> None:
    index = opened()
    put(index, doc("a", "walrus"), through=5)
    code = (
        "stream = (doc(f'n{n}', 'walrus') if n < 700 else os.kill(os.getpid(), signal.SIGKILL) for n in range(1000))\n"
        "index.rebuild('main', stream, through=9)"
    )
    assert ended(started(tmp_path, code)) == -signal.SIGKILL
    assert ask(index, "walrus") == ["a"]
    assert len(state(tmp_path)[DOMAIN]) == 1
    assert index.rebuild(DOMAIN, [doc("a", "walrus"), doc("b", "walrus")], through=9) == 2
    assert len(state(tmp_path)[DOMAIN]) == 1
    with index._database.connection() as connection:
        for table in ("doc", "text"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == 2
        assert connection.execute("SELECT count(*) FROM part").fetchone()[0] == 1


def test_merges_are_bounded_and_end_with_the_fold(tmp_path: Path, opened: Callable[[], TantivyIndex]) -> None:
    index = opened()
    for number in range(400):
        put(index, doc(f"n{number}", f"walrus {number}"), through=number + 1)
    (generation,) = state(tmp_path)[DOMAIN]
    files = [path.suffix for path in (tmp_path / "state" / "tantivy" / DOMAIN / generation).iterdir()]
    assert files.count(".term") <= 16
    assert len(ask(index, "walrus", limit=1000)) == 400


def test_a_child_of_a_fork_looks_for_itself(opened: Callable[[], TantivyIndex]) -> None:
    index = opened()
    put(index, *[doc(f"n{number}", "walrus") for number in range(25)])
    assert len(ask(index, "walrus", limit=100)) == 25
    child = os.fork()
    if child == 0:
        put(index, *[doc(f"m{number}", "walrus") for number in range(25)])
        os._exit(0 if len(ask(index, "walrus", limit=100)) == 50 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(ask(index, "walrus", limit=100)) == 50


def test_a_hundred_domains_are_searched_together_and_few_stay_open(opened: Callable[[], TantivyIndex]) -> None:
    index = opened()
    for number in range(100):
        put(index, *[doc(f"{number}-{of}", "walrus", domain=f"d{number}") for of in range(10)])
    readable = ReadFilter({f"d{number}": Label.restricted for number in range(100)})
    assert len(ask(index, "walrus", readable, limit=2000)) == 1000
    assert len(index._views._views) <= 64
    assert len(index._views._snapshots) <= 64
    assert ask(index, "walrus", readable, limit=3) == ["0-0", "0-1", "0-2"]


def test_the_journal_is_empty_after_a_fold_and_names_no_text_of_what_was_forgotten(
    opened: Callable[[], TantivyIndex],
) -> None:
    index = opened()
    put(index, *[doc(f"n{number}", "walrus") for number in range(10)])
    put(index, *[doc(f"n{number}", "walrus", version=2) for number in range(3)])
    with index._database.connection() as connection:
        assert connection.execute("SELECT count(*), count(text) FROM journal").fetchone() == (9, 3)
    index.forget(DOMAIN, "mem-n1", None)
    with index._database.connection() as connection:
        assert connection.execute("SELECT count(*) FROM journal").fetchone() == (0,)
        state_ = _catalog.state_of(connection, 1)
    assert state_ is not None
    assert state_.head == state_.folded
    assert len(ask(index, "walrus", limit=100)) == 9
