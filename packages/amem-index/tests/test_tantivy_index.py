"""What is particular to the index in Tantivy: its driver, its settings, what waits and what is taken in, its cost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amem_conformance.suite.index._making import DOMAIN, EVERYTHING, ask, day, doc, listed, put
from amem_core.domain.labels import Label, Status
from amem_core.domain.queries import Conditions, Hit, Query, ReadFilter
from amem_core.errors import ConfigError, PluginLoadError
from amem_core.plugins.loader import load_backend, open_backend
from amem_index.config import TantivySettings
from amem_index.plugins.tantivy import amem_backends
from amem_index.tantivy._text import question_of, text_of
from amem_index.tantivy.index import TantivyIndex, open_index

FEW = TantivySettings(pending=5, busy_seconds=5.0)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[TantivyIndex]:
    opened = open_index(str(tmp_path), FEW)
    yield opened
    opened.close()


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return tmp_path / "state" / "tantivy"


def generations(top: Path, domain: str = DOMAIN) -> list[str]:
    place = top / domain
    return sorted(path.name for path in place.iterdir()) if place.exists() else []


def answers(index: TantivyIndex, readable: ReadFilter = EVERYTHING) -> list[list[Hit]]:
    texts = ("walrus", "walrus carpenter", "number7", "the oyster walrus", "foo-bar", "c++")
    return [
        index.search(Query(text=text, readable=readable, limit=50, as_of=as_of))
        for text in texts
        for as_of in (None, day(1), day(2))
    ]


def paths() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def test_the_backend_is_declared_without_its_driver() -> None:
    (spec,) = amem_backends()
    assert (spec.port, spec.name, spec.extra) == ("index", "tantivy", "tantivy")
    code = "import sys, amem_index.plugins.tantivy, amem_index.config; sys.exit('tantivy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, env=paths()).returncode == 0


def test_opening_it_imports_nothing_heavy_but_its_driver() -> None:
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
        "import sys; import tantivy; before = set(sys.modules); import amem_index.tantivy.index, amem_index.config;"
        f" print(sorted((set(sys.modules) - before) & set({heavy!r})))"
    )
    ran = subprocess.run([sys.executable, "-S", "-c", code], check=True, capture_output=True, text=True, env=paths())
    assert ran.stdout.strip() == "[]"


def test_without_its_extra_it_is_one_error_that_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("amem_index.tantivy")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tantivy", None)
    with pytest.raises(PluginLoadError, match=r"index\.tantivy needs tantivy") as caught:
        open_backend(load_backend("index.tantivy"), "/nowhere")
    assert caught.value.hint == "python -m pip install 'amem[tantivy]'"


@pytest.mark.parametrize(
    "values",
    [
        {"busy_seconds": -1},
        {"cache_mib": 0},
        {"pending": 0},
        {"pending": 10**6},
        {"memory_mib": 8},
        {"memory_mib": "all"},
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(values: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"index\.tantivy\] {next(iter(values))}"):
        open_index(str(tmp_path), TantivySettings(**values))  # type: ignore[arg-type]  # what a configuration file may hold


def test_opening_touches_nothing(tmp_path: Path) -> None:
    open_index(str(tmp_path), TantivySettings()).close()
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_waits_until_it_is_enough_and_is_found_all_the_while(index: TantivyIndex, top: Path) -> None:
    for number in range(4):
        put(index, doc(f"n{number}", "walrus"))
        assert len(ask(index, "walrus")) == number + 1
    assert generations(top) == []
    put(index, doc("n4", "walrus"))
    (generation,) = generations(top)
    assert len(ask(index, "walrus")) == 5
    for number in range(5, 12):
        put(index, doc(f"n{number}", "walrus"))
        assert len(ask(index, "walrus", limit=20)) == number + 1
    assert generations(top) == [generation]


def test_long_texts_do_not_wait_in_the_memory_of_readers(tmp_path: Path) -> None:
    index = open_index(str(tmp_path), TantivySettings(pending=1000))
    for number in range(3):
        put(index, doc(f"n{number}", "the walrus and the carpenter " * 80_000))
    assert generations(tmp_path / "state" / "tantivy") != []
    index.close()


def test_a_domain_has_a_directory_of_its_own_whatever_it_is_called(index: TantivyIndex, top: Path) -> None:
    names = ["main", "a_b", "..", "a/b", "Main", "ü", "x" * 300, "x" * 301, ""]
    for name in names:
        put(index, *[doc(f"{number}-{name}", "walrus", domain=name) for number in range(5)])
    places = [path.name for path in top.iterdir() if path.is_dir()]
    assert len({place.casefold() for place in places}) == len(names)
    assert all(len(place) < 200 for place in places)
    for name in names:
        assert len(ask(index, "walrus", ReadFilter({name: Label.restricted}))) == 5


texts = st.lists(st.sampled_from(["walrus", "carpenter", "oyster", "foo-bar", "c++", "用户喜欢"]), max_size=5).map(
    " ".join
)
documents = st.builds(
    lambda number, version, body, title, status, known: doc(
        f"n{number}", body, version=version, title=title, status=status, known=known, domain="ab"[number % 2]
    ),
    st.integers(0, 5),
    st.integers(1, 3),
    texts,
    texts,
    st.sampled_from([Status.active, Status.active, Status.superseded]),
    st.integers(0, 3),
)


@settings(max_examples=15, deadline=None)
@given(history=st.lists(documents, min_size=1, max_size=12), pending=st.integers(1, 6))
def test_answers_and_scores_depend_on_what_was_written_and_not_on_what_waits(
    tmp_path_factory: pytest.TempPathFactory, history: list, pending: int
) -> None:
    both = ReadFilter({"a": Label.restricted, "b": Label.restricted})
    found = []
    for settings_ in (TantivySettings(pending=pending), TantivySettings()):
        index = open_index(str(tmp_path_factory.mktemp("root")), settings_)
        for document in history:
            put(index, document)
        found.append(answers(index, both))
        index.close()
    assert found[0] == found[1]


def test_scores_are_the_same_after_a_rebuild_of_hundreds_with_updates(index: TantivyIndex) -> None:
    kept = {}
    for number in range(240):
        document = doc(
            f"n{number % 80:03}", f"walrus number{number} carpenter " * (1 + number % 3), version=1 + number // 80
        )
        kept[document.entry.id, document.entry.version] = document
        put(index, document)
    before = answers(index)
    assert index.rebuild(DOMAIN, [kept[key] for key in sorted(kept)], through=1) == 240
    assert answers(index) == before


def test_a_narrow_filter_is_met_behind_thousands_that_rank_higher(index: TantivyIndex) -> None:
    crowd = [
        doc(
            f"c{number:04}", "walrus carpenter", title="walrus carpenter", source=(f"file:a/{number}",), tags=("crowd",)
        )
        for number in range(3000)
    ]
    one = doc(
        "one",
        "far down " * 40 + "walrus",
        source=("file:b/1",),
        tags=("rare",),
        author="tap:x",
        type="idea",
        created=day(3),
    )
    index.rebuild(DOMAIN, [*crowd, one], through=1)
    for only in (
        {"source_prefix": "file:b"},
        {"tags": ("rare",)},
        {"any_tags": ("rare", "none")},
        {"authors": ("tap:x",)},
        {"types": ("idea",)},
        {"created_from": day(2)},
    ):
        assert ask(index, "walrus carpenter", only=only, limit=3) == ["one"], only
    assert ask(index, "walrus carpenter", only={"source_prefix": "file:c"}) == []
    assert len(ask(index, "walrus carpenter", only={"source_prefix": "file:"}, limit=5000)) == 3001


def test_a_filter_by_what_is_longer_than_a_mark_is_still_exact(index: TantivyIndex) -> None:
    tag = "t" * 400
    put(index, *[doc(f"n{number}", "walrus", tags=(tag + str(number % 2),)) for number in range(10)])
    assert len(ask(index, "walrus", only={"tags": (tag + "1",)})) == 5


def test_equal_entries_are_ordered_by_id_however_many_there_are(index: TantivyIndex) -> None:
    index.rebuild(DOMAIN, [doc(f"n{number:04}", "the same walrus") for number in reversed(range(700))], through=1)
    assert ask(index, "walrus", limit=3) == ["n0000", "n0001", "n0002"]
    put(index, doc("a", "the same walrus"), doc("n0000b", "the same walrus"))
    assert ask(index, "walrus", limit=3) == ["a", "n0000", "n0000b"]


def test_a_common_word_in_a_long_entry_does_not_hide_the_entry_that_is_about_it(index: TantivyIndex) -> None:
    put(index, *[doc(f"n{number}", "walrus " + "filler words of no use " * 100) for number in range(6)])
    put(index, doc("a", "walrus and the carpenter", title="walrus"))
    assert ask(index, "walrus")[0] == "a"


def test_words_are_told_as_they_are_asked() -> None:
    text = text_of(doc("a", "walrus walrus carpenters", title="The Walruses", summary="naïve foo-bar 用户喜欢").entry)
    question = question_of("naive walrus carpenter foo-bar 用户")
    assert question is not None
    counted = {term.needle.strip(): text.text.count(term.needle) for term in question.terms}
    assert counted["walrus"] == 3
    assert counted["carpent"] == counted["naiv"] == counted["foo  bar"] == counted["用户"] == 1
    assert text.text.count(" walrus ", 0, text.title) == 1
    assert text.tokens == len(text.text.split())


def test_one_apply_is_one_transaction_of_few_statements(index: TantivyIndex) -> None:
    index.apply(DOMAIN, [doc("a")], through=1)
    statements: list[str] = []
    with index._database.connection() as connection:
        connection.set_trace_callback(statements.append)
    index.apply(DOMAIN, [doc("b")], through=2)
    own = [statement for statement in statements if not statement.startswith("--")]
    assert [own[0], own[-1]] == ["BEGIN IMMEDIATE", "COMMIT"]
    assert len(own) <= 11, own


def test_a_listing_asks_the_catalog_alone(index: TantivyIndex, top: Path) -> None:
    put(index, *[doc(f"n{number}", created=day(number)) for number in range(10)])
    for generation in generations(top):
        for path in (top / DOMAIN / generation).iterdir():
            path.unlink()
    assert listed(index, limit=2) == ["n9", "n8"]
    assert index.find("mem-n3") is not None
    assert index.select(EVERYTHING, Conditions(), limit=1)[0].id == "mem-n9"


MEASURED = """
import resource, sys
from amem_conformance.suite.index._making import ask, doc
from amem_index.config import TantivySettings
from amem_index.tantivy.index import open_index
index = open_index(sys.argv[1], TantivySettings(memory_mib=16))
count = int(sys.argv[2])
body = "the walrus and the carpenter " * 20
index.rebuild("main", (doc(f"{n:05}", body + (" marker" if n == count - 1 else "")) for n in range(count)), through=1)
assert ask(index, "marker") == [f"{count - 1:05}"]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_stays_flat_from_two_thousand_to_twenty_thousand_entries(tmp_path: Path) -> None:
    peaks: list[int] = []
    for count in (2_000, 20_000):
        arguments = [sys.executable, "-c", MEASURED, str(tmp_path / str(count)), str(count)]
        ran = subprocess.run(arguments, check=True, capture_output=True, text=True, env=paths())
        peaks.append(int(ran.stdout))
    assert peaks[1] - peaks[0] < 60_000, peaks  # KiB


def test_a_body_of_five_megabytes_is_searched_to_its_last_line(index: TantivyIndex) -> None:
    line = "a line of some text with foo-bar and C++ in it\n"
    put(index, doc("a", line * (5_000_000 // len(line)) + "the marker"), doc("b"))
    for _ in range(2):
        assert ask(index, "marker") == ["a"]
        assert ask(index, "c++") == ["a"]
        index.rebuild(DOMAIN, [doc("a", line * (5_000_000 // len(line)) + "the marker"), doc("b")], through=1)
