"""What is particular to the index in one SQLite file: its file, its locks, its plans and its memory."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from amem_core.domain.entries import Document, Entry
from amem_core.domain.labels import Label
from amem_core.domain.queries import Conditions, Query, ReadFilter
from amem_core.errors import ConfigError, InvalidError, UnavailableError
from amem_index.config import SqliteSettings
from amem_index.plugins.sqlite import amem_backends
from amem_index.sqlite import SqliteIndex, open_index

START = datetime(2026, 1, 1, tzinfo=UTC)
READABLE = ReadFilter({"main": Label.restricted})
IMPATIENT = SqliteSettings(busy_seconds=0.05)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SqliteIndex]:
    opened = open_index(str(tmp_path), IMPATIENT)
    yield opened
    opened.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "index.sqlite"


def doc(number: int, text: str = "walrus", version: int = 1) -> Document:
    at = START + timedelta(seconds=number)
    entry = Entry(
        id=f"mem-{number:05}",
        version=version,
        type="fact",
        domain="main",
        title=f"title {number}",
        summary="unsaid",
        body=text,
        author="owner",
        created=at,
        updated=at,
        classification=Label.internal,
    )
    return Document(entry, "digest", at)


def found(index: SqliteIndex, text: str = "walrus") -> list[str]:
    return [hit.id for hit in index.search(Query(text=text, readable=READABLE))]


def test_the_backend_is_declared_without_its_driver() -> None:
    (spec,) = amem_backends()
    assert (spec.port, spec.name) == ("index", "sqlite")
    code = "import sys, amem_index.plugins.sqlite, amem_index.config; sys.exit('sqlite3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_opening_it_imports_nothing_that_a_search_must_not_pay_for() -> None:
    heavy = [
        "pathlib",
        "logging",
        "tempfile",
        "subprocess",
        "importlib.metadata",
        "asyncio",
        "urllib",
        "shutil",
        "uuid",
    ]
    code = (
        "import sys; before = set(sys.modules); import amem_index.sqlite, amem_index.config;"
        f" print(sorted((set(sys.modules) - before) & set({heavy!r})))"
    )
    ran = subprocess.run([sys.executable, "-S", "-c", code], check=True, capture_output=True, text=True, env=_paths())
    assert ran.stdout.strip() == "[]"


def _paths() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.mark.parametrize(
    "values", [{"busy_seconds": -1}, {"busy_seconds": "soon"}, {"cache_mib": 0}, {"cache_mib": True}]
)
def test_a_setting_out_of_range_is_refused_by_name(values: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=next(iter(values))):
        open_index(str(tmp_path), SqliteSettings(**values))  # type: ignore[arg-type]  # what a configuration file may hold


def test_opening_touches_nothing(tmp_path: Path) -> None:
    open_index(str(tmp_path), SqliteSettings()).close()
    assert list(tmp_path.iterdir()) == []


def test_a_deleted_file_is_an_empty_index_at_once(index: SqliteIndex, file: Path) -> None:
    index.apply("main", [doc(1)], through=5)
    shutil.rmtree(file.parent)
    assert index.watermark("main") == 0
    assert found(index) == []
    index.apply("main", [doc(2)], through=6)
    other = open_index(str(file.parent.parent), IMPATIENT)
    assert found(other) == ["mem-00002"]
    other.close()


def test_a_file_of_another_version_is_made_anew(index: SqliteIndex, file: Path) -> None:
    index.apply("main", [doc(1)], through=5)
    index.close()
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    again = open_index(str(file.parent.parent), IMPATIENT)
    assert again.watermark("main") == 0
    assert again.rebuild("main", [doc(1)], through=5) == 1
    assert found(again) == ["mem-00001"]
    again.close()


def test_a_damaged_file_is_named_with_its_remedy_and_rebuilt(index: SqliteIndex, file: Path) -> None:
    index.apply("main", [doc(number) for number in range(300)], through=5)
    index.close()
    file.write_bytes(b"not a database at all, " * 1000)
    again = open_index(str(file.parent.parent), IMPATIENT)
    for call in (lambda: found(again), lambda: again.watermark("main"), lambda: again.find("mem-00001")):
        with pytest.raises(UnavailableError, match="damaged") as caught:
            call()
        assert str(file) in str(caught.value)
        assert "amem reindex" in caught.value.hint
        assert isinstance(caught.value.__cause__, sqlite3.Error)
    assert again.rebuild("main", [doc(1)], through=5) == 1
    assert found(again) == ["mem-00001"]
    again.close()


def test_a_table_that_is_missing_is_damage(index: SqliteIndex, file: Path) -> None:
    index.apply("main", [doc(1)], through=5)
    connection = sqlite3.connect(file)
    connection.execute("DROP TABLE shard")
    connection.close()
    with pytest.raises(UnavailableError, match="damaged"):
        found(index)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    index = open_index(str(tmp_path), IMPATIENT)
    with pytest.raises(UnavailableError, match="state") as caught:
        found(index)
    assert caught.value.hint


def test_a_lock_of_a_rebuild_that_cannot_be_opened_is_named(index: SqliteIndex, file: Path) -> None:
    index.apply("main", [doc(1)], through=1)
    file.with_name(f"{file.name}.rebuild").mkdir()
    with pytest.raises(UnavailableError, match=file.name) as caught:
        index.rebuild("main", [doc(1)], through=1)
    assert caught.value.hint


def test_a_disk_that_is_full_is_an_error_and_what_was_there_stays(index: SqliteIndex) -> None:
    index.apply("main", [doc(1)], through=5)
    with index._database.connection() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(UnavailableError, match="full") as caught:
        index.apply("main", [doc(2, "oyster " * 100_000)], through=6)
    assert "space" in caught.value.hint
    assert found(index) == ["mem-00001"]
    assert index.watermark("main") == 5


def test_an_interrupt_right_behind_the_begin_of_a_write_leaves_no_transaction_for_others_to_wait_for(
    index: SqliteIndex, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(sqlite3.Connection):
        def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
            cursor = super().execute(sql, *values)
            if sql == "BEGIN IMMEDIATE":
                raise KeyboardInterrupt
            return cursor

    index.apply("main", [doc(1)], through=1)
    connect = sqlite3.connect
    other = open_index(str(file.parent.parent), IMPATIENT)
    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", lambda *args, **rest: connect(*args, factory=Interrupted, **rest))
        with pytest.raises(KeyboardInterrupt):
            other.apply("main", [doc(2)], through=2)
    index.apply("main", [doc(2)], through=2)
    assert index.watermark("main") == 2


def test_a_writer_that_holds_on_is_an_error_after_the_wait(index: SqliteIndex, file: Path) -> None:
    index.apply("main", [doc(1)], through=5)
    with open(f"{file}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UnavailableError, match=r"held by another writer for 0\.05 s"):
            index.apply("main", [doc(2)], through=6)
        assert found(index) == ["mem-00001"]
    index.apply("main", [doc(2)], through=6)


def test_a_transaction_of_another_program_is_an_error_after_the_wait(index: SqliteIndex, file: Path) -> None:
    index.apply("main", [doc(1)], through=5)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(UnavailableError, match="busy"):
        index.apply("main", [doc(2)], through=6)
    other.execute("ROLLBACK")
    other.close()
    index.apply("main", [doc(2)], through=6)


def test_forget_says_that_a_reader_still_holds_the_bytes_and_succeeds_when_it_is_gone(
    index: SqliteIndex, file: Path
) -> None:
    index.apply("main", [doc(1, "zqsecret " * 500), doc(2)], through=5)
    reader = sqlite3.connect(file, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM doc").fetchone()
    assert index.forget("main", "mem-00001", None) is False
    assert found(index) == ["mem-00002"]
    reader.execute("ROLLBACK")
    assert index.forget("main", "mem-00001", None) is True
    assert not any(b"zqsecret" in path.read_bytes() for path in file.parent.iterdir())
    reader.close()


def test_what_a_rebuild_drops_leaves_the_file_with_the_next_forget(index: SqliteIndex, file: Path) -> None:
    index.apply("main", [doc(1, "zqsecret"), doc(2)], through=5)
    index.rebuild("main", [doc(2)], through=6)
    assert index.forget("main", "mem-00001", None)
    assert not any(b"zqsecret" in path.read_bytes() for path in file.parent.iterdir())


def test_a_rebuild_that_was_killed_leaves_nothing_that_answers_or_stays(index: SqliteIndex, file: Path) -> None:
    index.apply("main", [doc(1)], through=5)
    code = (
        "import os, sys; sys.path[:0] = os.environ['PYTHONPATH'].split(os.pathsep);"
        "from test_sqlite_index import doc, open_index, IMPATIENT;"
        f"index = open_index({str(file.parent.parent)!r}, IMPATIENT);"
        "stream = (doc(n) if n < 700 else os._exit(9) for n in range(1000));"
        "index.rebuild('main', stream, through=9)"
    )
    environment = _paths()
    environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).parent)
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environment).returncode == 9
    assert found(index) == ["mem-00001"]
    assert index.rebuild("main", [doc(1), doc(2)], through=9) == 2
    with index._database.connection() as connection:
        assert connection.execute("SELECT count(*) FROM doc").fetchone()[0] == 2
        assert connection.execute("SELECT count(*) FROM live").fetchone()[0] == 2


def test_connections_of_threads_that_ended_are_closed(index: SqliteIndex) -> None:
    index.apply("main", [doc(1)], through=5)
    for _ in range(20):
        thread = threading.Thread(target=found, args=(index,))
        thread.start()
        thread.join()
    assert len(index._database._handles) <= 2


def test_a_number_beyond_sqlite_is_refused(index: SqliteIndex) -> None:
    with pytest.raises(InvalidError, match="too large"):
        index.apply("main", [doc(1)], through=2**70)
    assert index.watermark("main") == 0


@pytest.mark.parametrize(
    ("conditions", "plan"),
    [
        (Conditions(types=("handoff",)), "doc_type"),
        (Conditions(statuses=()), "doc_created"),
        (Conditions(always_load=True), "doc_always"),
        (Conditions(fingerprint="0" * 32), "doc_fingerprint"),
    ],
)
def test_a_listing_of_one_domain_walks_an_index(index: SqliteIndex, conditions: Conditions, plan: str) -> None:
    index.apply("main", [doc(number) for number in range(50)], through=5)
    statements: list[str] = []
    with index._database.connection() as connection:
        connection.set_trace_callback(statements.append)
    index.select(READABLE, conditions)
    with index._database.connection() as connection:
        connection.set_trace_callback(None)
        steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statements[-1]}")]
    assert any(plan in step for step in steps), steps


def test_a_search_is_ranked_by_fts5_with_no_sort_after_it(index: SqliteIndex) -> None:
    index.apply("main", [doc(number) for number in range(50)], through=5)
    statements: list[str] = []
    with index._database.connection() as connection:
        connection.set_trace_callback(statements.append)
    assert len(found(index)) == 10
    with index._database.connection() as connection:
        connection.set_trace_callback(None)
        asked = [statement for statement in statements if "FROM live CROSS JOIN doc" in statement]
        assert len(asked) == 1
        steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {asked[0]}")]
    assert not any("TEMP B-TREE" in step for step in steps), steps


def test_one_apply_is_one_transaction_of_few_statements(index: SqliteIndex) -> None:
    index.apply("main", [doc(1)], through=1)
    statements: list[str] = []
    with index._database.connection() as connection:
        connection.set_trace_callback(statements.append)
    index.apply("main", [doc(2)], through=2)
    own = [statement for statement in statements if not statement.startswith("--")]
    assert [own[0], own[-1]] == ["BEGIN IMMEDIATE", "COMMIT"]
    assert len(own) <= 7, own


MEASURED = """
import resource, sys
sys.path[:0] = sys.argv[3].split(":")
from test_sqlite_index import doc, found, open_index, IMPATIENT
index = open_index(sys.argv[1], IMPATIENT)
count = int(sys.argv[2])
body = "the walrus and the carpenter " * 20
index.rebuild("main", (doc(n, body + (" marker" if n == count - 1 else "")) for n in range(count)), through=1)
assert found(index, "marker") == [f"mem-{count - 1:05}"]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_stays_flat_from_one_thousand_to_forty_thousand_entries(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    peaks: list[int] = []
    for count in (1_000, 40_000):
        arguments = [sys.executable, "-c", MEASURED, str(tmp_path / str(count)), str(count), paths]
        ran = subprocess.run(arguments, check=True, capture_output=True, text=True)
        peaks.append(int(ran.stdout))
    assert peaks[1] - peaks[0] < 40_000, peaks  # KiB


def test_a_body_of_five_megabytes_is_searched_to_its_last_line(index: SqliteIndex) -> None:
    line = "a line of some text with foo-bar and C++ in it\n"
    index.apply("main", [doc(1, line * (5_000_000 // len(line)) + "the marker"), doc(2)], through=1)
    assert found(index, "marker") == ["mem-00001"]
    assert found(index, "c++") == ["mem-00001"]
