"""A bundle under stress: killed at any step, larger than memory, of any record."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tracemalloc
from datetime import date

import pytest
from bundles import LONG, NamedIds, fact, tree
from crashing import killed_at
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amem_core import Label, Memory
from amem_core.errors import AmemError, ConflictError, DeniedError, UnavailableError
from amem_core.services import arriving, committing
from amem_core.testing import CountingIds, FrozenClock

MOST_STEPS = 300


# -- cut short ------------------------------------------------------------------------------------------


@pytest.fixture
def stating(owner, tmp_path):
    """A bundle of a rejected entry and of a verified one that states the same value, and an empty root for it."""
    checked = owner.write(fact("Where it listens", "port", body=LONG, label=Label.internal)).id
    owner.verify(checked, oracle="ci", evidence="run 12", by="Ada")
    owner.reject(owner.write(fact("Port", "port", body=LONG)).id, reason="twice")
    path = str(tmp_path / "stating")
    owner.export("notes", path)
    empty = str(tmp_path / "empty")
    Memory.init(empty, domain="notes")
    return path, empty


def imported(root, bundle):
    with Memory.open(root, clock=FrozenClock()) as memory, memory.session(author="owner") as session:
        return ",".join(session.import_bundle(bundle).ids)


def test_an_import_that_is_killed_at_any_step_goes_on_where_it_stopped(stating, tmp_path, monkeypatch):
    monkeypatch.setattr(arriving, "_BATCH", 1)
    bundle, empty = stating
    whole = tree(bundle)
    taken_up = 0
    # To die behind a step is to die before the next one.
    for number in itertools.count(1):
        assert number < MOST_STEPS, "the import never ends"
        root = str(tmp_path / f"copy-{number}")
        shutil.copytree(empty, root)
        outcome = killed_at(number, lambda root=root: imported(root, bundle), after=False)
        taken_up += look_after(root, bundle, whole, acknowledged=outcome.acknowledged is not None)
        shutil.rmtree(root)
        if outcome.killed_at is None:
            break
    assert taken_up > 0


def look_after(root, bundle, whole, *, acknowledged):
    """Import again after the crash; return how many entries had landed before it."""
    with Memory.open(root, clock=FrozenClock()) as memory, memory.session(author="owner") as session:
        landed = 0
        if not acknowledged:
            # Killed behind its last event, before it could say so, it has finished, and is refused as any second one.
            with contextlib.suppress(ConflictError):
                landed = session.import_bundle(bundle).there_already
        out = os.path.join(root, "out")
        session.export("notes", out)
        assert tree(out) == whole
        with pytest.raises(ConflictError, match="already"):
            session.import_bundle(bundle)
        with pytest.raises(ConflictError, match="twice"):
            session.write(fact("Again", "again", body=LONG))
        # What states a value that was rejected under another id is due for review: that it says.
        assert {check.name for check in memory.doctor() if check.state != "ok"} <= {"notes: reviews and sources"}
        assert session.reindex(domain="notes")[0].broken == ()
    return landed


@pytest.fixture
def cut_short(owner, elsewhere, tmp_path, monkeypatch):
    """A bundle of two entries whose import failed behind the first, and their ids."""
    ids = [owner.write(fact(title, title, body=f"{LONG} {title}")).id for title in ("first", "second")]
    path = str(tmp_path / "two")
    owner.export("notes", path)
    monkeypatch.setattr(arriving, "_BATCH", 1)
    real, commits = committing.commit, []

    def failing(*args, **fields):
        commits.append(args)
        if len(commits) > 1:
            message = "there is no room on the disk"
            raise UnavailableError(message, hint="make room")
        return real(*args, **fields)

    with monkeypatch.context() as patch:
        patch.setattr(committing, "commit", failing)
        with pytest.raises(UnavailableError, match="no room") as failed:
            elsewhere.import_bundle(path)
    assert "import the same bundle again" in failed.value.hint
    return path, ids


def test_an_import_that_failed_says_how_it_goes_on_and_does(cut_short, elsewhere, tmp_path):
    path, ids = cut_short
    assert elsewhere.import_bundle(path, dry_run=True).there_already == 1
    done = elsewhere.import_bundle(path)
    assert (done.ids, done.there_already) == (tuple(ids), 1)
    elsewhere.export("notes", str(tmp_path / "again"))
    assert tree(str(tmp_path / "again")) == tree(path)


def test_another_bundle_of_the_same_entries_does_not_take_up_an_import_that_was_cut_short(
    cut_short, owner, elsewhere, tmp_path, clock
):
    _, ids = cut_short
    clock.advance(hours=1)
    owner.export("notes", str(tmp_path / "another"))
    with pytest.raises(ConflictError, match=f"{ids[0]} is in notes already"):
        elsewhere.import_bundle(str(tmp_path / "another"))


def test_what_was_erased_or_changed_since_an_import_was_cut_short_stays_so(cut_short, elsewhere):
    path, ids = cut_short
    elsewhere.erase(ids[0], reason="legal")
    assert elsewhere.import_bundle(path).there_already == 1
    assert elsewhere.get(ids[1]).entry.title == "second"
    with pytest.raises(DeniedError):
        elsewhere.get(ids[0])


def test_what_was_rejected_here_since_an_import_was_cut_short_is_refused(cut_short, elsewhere):
    path, _ = cut_short
    elsewhere.reject(elsewhere.write(fact("other", "other", body=f"{LONG} second")).id, reason="wrong here")
    with pytest.raises(ConflictError, match="wrong here"):
        elsewhere.import_bundle(path)


def test_an_export_that_is_killed_at_any_step_leaves_a_whole_bundle_or_none(stating, owner, opened, tmp_path):
    bundle, _ = stating
    whole = tree(bundle)
    taken = opened("taken")
    for number in itertools.count(1):
        assert number < MOST_STEPS, "the export never ends"
        to = str(tmp_path / f"to-{number}")
        outcome = killed_at(number, lambda to=to: exported(owner.runtime.root, to), after=True)
        if os.path.exists(os.path.join(to, "manifest.yaml")):
            assert {name: data for name, data in tree(to).items() if not name.startswith(".")} == whole
        else:
            with pytest.raises(AmemError):
                taken.import_bundle(to)
        if outcome.killed_at is None:
            return


def exported(root, to):
    with Memory.open(root, clock=FrozenClock()) as memory, memory.session(author="owner") as session:
        return session.export("notes", to).path


# -- of any record --------------------------------------------------------------------------------------

IN_MEMORY = "format = 1\n" + "".join(f'[{port}]\nbackend = "memory"\n' for port in ("store", "index", "ledger", "log"))
words = st.text(min_size=1, max_size=30).filter(lambda text: text.strip() and "\0" not in text)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "yes", "1.0"]), inner),
    max_leaves=6,
)
drafts = st.builds(
    fact,
    title=words,
    summary=words,
    body=st.text(max_size=80).filter(lambda text: "\0" not in text),
    label=st.sampled_from([None, Label.public, Label.internal, Label.restricted]),
    confidence=st.none() | st.floats(0, 1),
    review_by=st.none() | st.dates(date(2000, 1, 1), date(2099, 1, 1)),
    valid_from=st.none() | st.dates(date(2000, 1, 1), date(2099, 1, 1)),
    tags=st.lists(words, max_size=2).map(tuple),
    aliases=st.lists(words, max_size=2).map(tuple),
    always_load=st.booleans(),
    extra=st.dictionaries(st.sampled_from(["colour", "size", "x-y", "用户"]), values, max_size=2),
)
steps = st.lists(
    st.tuples(st.sampled_from(["verify", "reject", "lift", "erase", "supersede", "change"]), st.integers(0, 9), words),
    max_size=8,
)


def happened(session, drafts, steps):
    """Do what may be done of a history; what is refused did not happen."""
    ids = []
    for draft in drafts:
        with contextlib.suppress(AmemError):
            ids.append(session.write(draft).id)
    for what, which, text in steps:
        if not ids:
            return
        id = ids[which % len(ids)]
        with contextlib.suppress(AmemError):
            if what == "verify":
                session.verify(id, oracle="human", evidence=text, by="Ada")
            elif what in {"reject", "lift"}:
                getattr(session, what)(id, reason=text)
            elif what == "erase":
                session.erase(id, reason="mistaken")
            elif what == "supersede":
                ids.append(session.write(fact(text, "newer", supersedes=(id,))).id)
            else:
                session.write(fact(text, "changed", id=id))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return what makes a new place for each example."""
    return lambda: str(tmp_path_factory.mktemp("place"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(drafts, max_size=6), steps)
def test_export_import_export_gives_the_same_bytes_for_any_record(place, drafts, steps):
    top = place()
    before = None
    for hop in ("origin", "one", "two"):
        root, out = os.path.join(top, hop), os.path.join(top, f"{hop}.bundle")
        Memory.init(root, domain="notes")
        with open(os.path.join(root, "amem.toml"), "w", encoding="utf-8") as file:
            file.write(IN_MEMORY)
        with (
            Memory.open(root, clock=FrozenClock(), ids=CountingIds()) as memory,
            memory.session(author="owner") as session,
        ):
            if before is None:
                happened(session, drafts, steps)
            else:
                session.import_bundle(before)
            session.export("notes", out)
        if before is not None:
            assert tree(out) == tree(before)
        before = out
    shutil.rmtree(top)


# -- larger than memory ---------------------------------------------------------------------------------


def peaks(place, count, body):
    """Return the peak of what Python allocates in an export and in an import of ``count`` entries, in bytes."""
    top = place()
    taken = []
    out = os.path.join(top, "bundle")
    for hop in ("origin", "one"):
        root = os.path.join(top, hop)
        Memory.init(root, domain="notes")
        with Memory.open(root, ids=NamedIds(hop)) as memory, memory.session(author="owner") as session:
            if hop == "origin":
                for first in range(0, count, 100):
                    group = range(first, min(first + 100, count))
                    session.write_many([fact(f"Fact {n}", f"number {n}", body=body) for n in group])
            tracemalloc.start()
            try:
                session.export("notes", out) if hop == "origin" else session.import_bundle(out)
                taken.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
    shutil.rmtree(top)
    return taken


def test_the_memory_that_a_bundle_takes_does_not_grow_with_the_text_in_it(place):
    small, large = peaks(place, 50, "x " * 500), peaks(place, 50, "x " * 100_000)
    for less, more in zip(small, large, strict=True):
        # The text is 10 MB in all. What is allowed for is one batch of it, in all of the forms that it takes.
        assert more - less < 7_000_000


def test_the_memory_that_a_bundle_takes_grows_by_ids_alone_with_its_entries(place, monkeypatch):
    # Both have more than one batch, which is what is in memory at a time.
    monkeypatch.setattr(arriving, "_BATCH", 50)
    few, many = peaks(place, 200, "x " * 500), peaks(place, 1200, "x " * 500)
    for less, more in zip(few, many, strict=True):
        # A kilobyte of text each; an id and what it is known by take less than half of that.
        assert more - less < 400 * (1200 - 200)
