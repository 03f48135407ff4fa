"""What was known then and what was true then, against a history that is a list and an oracle of a few lines."""

from __future__ import annotations

import itertools
import os
import tempfile
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from amem_core import Draft, Memory
from amem_core.domain.labels import Status, Tier
from amem_core.errors import ConflictError, DeniedError, InvalidError, NotFoundError
from amem_core.testing import CountingIds, FrozenClock

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
IN_MEMORY = "".join(
    f'format = 1\n[{port}]\nbackend = "memory"\n'.replace("format = 1\n", "format = 1\n" if port == "store" else "")
    for port in ("store", "index", "ledger", "log")
)
BACKENDS = {"embedded": "", "in memory": IN_MEMORY}
DAYS = st.integers(-3, 20)
SPANS = st.none() | st.integers(0, 30)


def day(number):
    return START + timedelta(days=number)


# -- a fixed history, told by hand --------------------------------------------------------------------


def fact(title, summary, **fields):
    return Draft(domain="notes", type="fact", title=title, summary=summary, **fields)


def texts(result):
    return [hit.summary for hit in result.hits]


def test_a_replay_shows_the_belief_and_the_trust_of_then(owner, clock):
    first = owner.write(fact("Port", "staging listens on 8080"))
    clock.advance(days=1)
    owner.verify(first.id, oracle="human", evidence="looked", by="the lead")
    clock.advance(days=1)
    owner.write(fact("Port", "staging listens on 9090", supersedes=(first.id,)))
    clock.advance(days=1)
    for number, summary, tier in ((0, "8080", Tier.raw), (1, "8080", Tier.verified), (2, "9090", Tier.raw)):
        (hit,) = owner.search("staging listens", as_of=day(number)).hits
        assert summary in hit.summary
        assert hit.tier is tier
    replayed = owner.get(first.id, as_of=day(1)).entry
    assert (replayed.status, len(replayed.verified)) == (Status.active, 1)
    assert owner.get(first.id, as_of=day(0)).entry.verified == ()
    assert owner.search("staging listens", as_of=day(-1)).hits == ()
    with pytest.raises(NotFoundError, match="not known"):
        owner.get(first.id, as_of=day(-1))


def test_both_clocks_ask_what_was_believed_at_one_time_of_another(owner, clock):
    old = owner.write(fact("Price", "the plan costs 10", valid_from=day(0)))
    clock.advance(days=10)
    owner.write(fact("Price", "the plan costs 12", valid_from=day(5), supersedes=(old.id,)))
    believed = {
        (as_of, valid_at): texts(owner.search("plan costs", as_of=as_of, valid_at=valid_at))
        for as_of in (day(1), day(11))
        for valid_at in (day(2), day(7))
    }
    assert believed == {
        (day(1), day(2)): ["the plan costs 10"],
        (day(1), day(7)): ["the plan costs 10"],
        (day(11), day(2)): ["the plan costs 10"],
        (day(11), day(7)): ["the plan costs 12"],
    }
    assert texts(owner.search("plan costs")) == ["the plan costs 12"]


def test_a_correction_without_a_date_leaves_nothing_that_was_true(owner):
    wrong = owner.write(fact("Price", "the plan costs 10"))
    owner.write(fact("Price", "the plan costs 12", supersedes=(wrong.id,)))
    assert texts(owner.search("plan costs", valid_at=day(0))) == ["the plan costs 12"]


def test_reading_by_id_says_when_an_entry_is_not_true(owner):
    id = owner.write(fact("Price", "the plan costs 10", valid_from=day(2), valid_until=day(4))).id
    assert owner.get(id, valid_at=day(2)).masks == (f"valid-at {day(2).isoformat()}",)
    for outside in (day(1), day(4)):
        with pytest.raises(NotFoundError, match="holds from"):
            owner.get(id, valid_at=outside)


def test_t0_and_recall_go_by_the_clocks_and_say_so(owner, clock):
    owner.write(Draft(domain="notes", type="decision", title="Deploys", summary="one approval is enough"))
    before = clock.now()
    clock.advance(days=1)
    owner.write(Draft(domain="notes", type="handoff", title="Left", summary="deploys are open"))
    first = owner.t0(as_of=before)
    assert [hit.title for hit in (*first.handoffs, *first.decisions)] == ["Deploys"]
    assert f"as-of {before.isoformat()}" in first.text.splitlines()[0]
    assert first.masks == (f"as-of {before.isoformat()}",)
    pack = owner.recall("deploys", as_of=before)
    assert "one approval" in pack.text
    assert "deploys are open" not in pack.text
    assert f"as-of {before.isoformat()}" in pack.text.splitlines()[0]
    assert [hit.title for hit in owner.t0().handoffs] == ["Left"]


def test_an_import_was_not_known_before_it_came(owner, clock, tmp_path):
    other = str(tmp_path / "other")
    Memory.init(other, domain="notes")
    with (
        Memory.open(other, clock=FrozenClock(START - timedelta(days=100))) as elsewhere,
        elsewhere.session(author="owner") as session,
    ):
        id = session.write(fact("Port", "staging listens on 8080")).id
        session.export("notes", str(tmp_path / "bundle"))
    owner.import_bundle(str(tmp_path / "bundle"))
    assert texts(owner.search("staging", as_of=clock.now())) == ["staging listens on 8080"]
    assert owner.search("staging", as_of=day(-1)).hits == ()
    owner.reindex(domain="notes")
    assert owner.search("staging", as_of=day(-1)).hits == ()
    with pytest.raises(NotFoundError):
        owner.get(id, as_of=day(-1))


def test_a_clock_that_jumps_back_makes_nothing_known_before_what_it_replaces(owner, clock):
    clock.advance(days=10)
    id = owner.write(fact("Port", "staging listens on 8080")).id
    clock.advance(days=-5)
    owner.write(fact("Port", "staging listens on 9090", id=id))
    assert owner.search("staging", as_of=day(7)).hits == ()
    for _ in range(2):
        assert texts(owner.search("staging", as_of=day(10))) == ["staging listens on 9090"]
        owner.reindex(domain="notes")


def test_a_clock_without_an_offset_is_refused_by_every_question(owner):
    id = owner.write(fact("Port", "staging listens on 8080")).id
    naive = datetime(2026, 1, 1)  # noqa: DTZ001  (what is refused)
    for clocks in ({"as_of": naive}, {"valid_at": naive}):
        for ask in (
            lambda clocks=clocks: owner.search("staging", **clocks),
            lambda clocks=clocks: owner.get(id, **clocks),
            lambda clocks=clocks: owner.recall("staging", **clocks),
            lambda clocks=clocks: owner.t0(**clocks),
        ):
            with pytest.raises(InvalidError, match="offset"):
                ask()


def test_a_text_that_a_hand_put_into_a_file_is_no_belief_of_before(owner, clock, root):
    id = owner.write(fact("Port", "staging listens on 8080")).id
    clock.advance(days=2)
    path = os.path.join(root, "record", "notes", f"{id}.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("8080", "9090"))
    for _ in range(2):
        with pytest.raises(NotFoundError):
            owner.get(id, as_of=day(1))
        assert "9090" not in owner.recall("staging listens", as_of=day(1)).text
        sections = owner.search("staging listens", as_of=day(1), depth="sections").sections
        assert "9090" not in str(sections)
        assert "9090" in owner.get(id).entry.summary
        owner.reindex(domain="notes")
    assert "9090" in owner.get(id, as_of=clock.now()).entry.summary


def test_a_file_of_an_earlier_version_that_a_hand_changed_is_not_replayed(owner, clock, root):
    id = owner.write(fact("Port", "staging listens on 8080")).id
    clock.advance(days=2)
    owner.write(fact("Port", "staging listens on 9090", id=id))
    path = os.path.join(root, "record", "notes", ".history", id, "1.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("8080", "7070"))
    with pytest.raises(NotFoundError, match="changed by hand"):
        owner.get(id, as_of=day(1))


@pytest.mark.parametrize("configuration", BACKENDS.values(), ids=BACKENDS)
def test_what_is_true_to_the_last_day_there_is_answers_to_the_end(configuration, tmp_path, clock):
    root = str(tmp_path / "far")
    Memory.init(root, domain="notes")
    if configuration:
        (tmp_path / "far" / "amem.toml").write_text(configuration, encoding="utf-8")
    last = datetime.max.replace(tzinfo=UTC)
    with Memory.open(root, clock=clock) as memory, memory.session(author="owner") as session:
        old = session.write(fact("Law", "it holds for ever", valid_until=date(9999, 12, 31)))
        assert session.get(old.id, valid_at=last).entry.id == old.id
        assert texts(session.search("holds for ever", valid_at=last)) == ["it holds for ever"]
        session.write(fact("Law", "it ended", valid_from=day(3), supersedes=(old.id,)))
        assert session.get(old.id, valid_at=day(2)).entry.valid_until == day(3)
        assert session.search("holds for ever", valid_at=last).hits == ()


def test_a_question_about_another_time_that_finds_nothing_says_to_try_another(owner):
    owner.write(Draft(domain="notes", type="decision", title="Deploys", summary="one approval is enough"))
    assert "another time" in owner.search("approval", as_of=day(-1)).notices[-1]
    empty = owner.t0(as_of=day(-1)).text
    assert f"Nothing answers for as-of {day(-1).isoformat()}" in empty
    assert "Nothing is remembered" not in empty


# -- any history, against the oracle ------------------------------------------------------------------


@dataclass(frozen=True)
class Version:
    """One version as the oracle keeps it: what it says, and when it was learned."""

    id: str
    number: int
    word: str
    status: Status
    tier: Tier
    begins: datetime | None
    ends: datetime | None
    learned: datetime


def answers(history, as_of, valid_at):
    """The oracle: of each id the highest version learned by then, if it is served and true."""
    found = {}
    for version in history:
        if as_of is None or version.learned <= as_of:
            found[version.id] = max(found.get(version.id, version), version, key=lambda each: each.number)
    return {version.id: version for version in found.values() if served(version, valid_at)}


def served(version, valid_at):
    if valid_at is None:
        return version.status is Status.active
    true = (version.begins is None or version.begins <= valid_at) and (version.ends is None or valid_at < version.ends)
    past = version.status is Status.superseded and version.ends is not None
    return true and (version.status is Status.active or past)


def said(hits):
    return {hit.id: (hit.summary.split()[-1], hit.tier) for hit in hits}


class Histories(RuleBasedStateMachine):
    """Does the same to a memory and to the list, and asks both the same questions."""

    configuration = ""
    entries = Bundle("entries")

    def __init__(self):
        super().__init__()
        self.top = tempfile.TemporaryDirectory()
        root = os.path.join(self.top.name, "root")
        Memory.init(root, domain="notes")
        if self.configuration:
            with open(os.path.join(root, "amem.toml"), "w", encoding="utf-8") as file:
                file.write(self.configuration)
        self.clock = FrozenClock(START)
        self.memory = Memory.open(root, clock=self.clock, ids=CountingIds())
        self.session = self.memory.session(author="owner")
        self.history = []
        self.words = (f"word{number}" for number in itertools.count())

    def teardown(self):
        self.memory.close()
        self.top.cleanup()

    def newest(self, id):
        return max((version for version in self.history if version.id == id), key=lambda version: version.number)

    def learn(self, id, **changed):
        old = self.newest(id)
        kept = {name: getattr(old, name) for name in ("word", "status", "tier", "begins", "ends")}
        # What follows a version is not learned before it, whatever the clock says.
        learned = max(self.clock.now(), old.learned)
        self.history.append(Version(id, old.number + 1, learned=learned, **{**kept, **changed}))

    def draft(self, word, begins, length, **fields):
        begin = None if begins is None else day(begins)
        end = None if length is None else (begin or day(0)) + timedelta(days=length + 1)
        made = Draft(
            domain="notes",
            # A type that t0 shows.
            type="decision",
            title=f"{word} title",
            summary=f"every says {word}",
            valid_from=begin,
            valid_until=end,
            **fields,
        )
        return made, begin, end

    @initialize(target=entries, begins=SPANS, length=SPANS)
    def first(self, begins, length):
        return self.write(begins, length)

    @rule(target=entries, begins=SPANS, length=SPANS)
    def more(self, begins, length):
        return self.write(begins, length)

    def write(self, begins, length, **fields):
        word = next(self.words)
        draft, begin, end = self.draft(word, begins, length, **fields)
        id = self.session.write(draft).id
        self.history.append(Version(id, 1, word, Status.active, Tier.raw, begin, end, self.clock.now()))
        return id

    @rule(id=entries, begins=SPANS, length=SPANS)
    def change(self, id, begins, length):
        word = next(self.words)
        draft, begin, end = self.draft(word, begins, length, id=id)
        if self.newest(id).status is not Status.active:
            with pytest.raises(ConflictError):
                self.session.write(draft)
            return
        self.session.write(draft)
        self.learn(id, word=word, tier=Tier.raw, begins=begin, ends=end)

    @rule(target=entries, id=entries, begins=SPANS, length=SPANS)
    def supersede(self, id, begins, length):
        old = self.newest(id)
        if old.status is not Status.active:
            with pytest.raises(ConflictError):
                self.write(begins, length, supersedes=(id,))
            return id
        new = self.write(begins, length, supersedes=(id,))
        begin = self.newest(new).begins
        closes = (
            begin is not None and (old.ends is None or old.ends > begin) and not (old.begins and old.begins > begin)
        )
        self.learn(id, status=Status.superseded, ends=begin if closes else old.ends)
        return new

    @rule(id=entries)
    def verify(self, id):
        if self.newest(id).status is Status.active:
            self.session.verify(id, oracle="data", evidence="seen", by="somebody")
            self.learn(id, tier=Tier.verified)

    @rule(id=entries)
    def reject(self, id):
        if self.newest(id).status is Status.active:
            self.session.reject(id, reason="no")
            self.learn(id, status=Status.demoted)

    @rule(id=entries)
    def lift(self, id):
        if self.newest(id).status is Status.demoted:
            self.session.lift(id, reason="yes")
            self.learn(id, status=Status.active)

    @rule(id=entries)
    def erase(self, id):
        if self.newest(id).status is not Status.erased:
            self.session.erase(id, reason="requested")
            self.history = [version for version in self.history if version.id != id]
            self.history.append(Version(id, 10**6, "", Status.erased, Tier.raw, None, None, self.clock.now()))

    @rule(days=st.integers(1, 9))
    def later(self, days):
        self.clock.advance(days=days)

    @rule(days=st.integers(1, 4))
    def back(self, days):
        self.clock.advance(days=-days)

    @rule()
    def rebuild(self):
        self.session.reindex(domain="notes")

    @rule(as_of=st.none() | DAYS, valid_at=st.none() | DAYS)
    def ask(self, as_of, valid_at):
        clocks = {
            "as_of": None if as_of is None else day(as_of),
            "valid_at": None if valid_at is None else day(valid_at),
        }
        wanted = answers(self.history, **clocks)
        found = self.session.search("every says", limit=100, **clocks)
        told = {id: (version.word, version.tier) for id, version in wanted.items()}
        assert said(found.hits) == told
        pack = self.session.recall("every says", budget=100_000, limit=100, **clocks)
        assert (said(pack.hits), pack.left_out) == (told, ())
        assert all(f"every says {version.word}\n" in pack.text for version in wanted.values())
        start = self.session.t0(**clocks)
        assert said(start.decisions).items() <= told.items()
        assert len(start.decisions) + start.cut == len(told)
        assert found.masks == pack.masks == start.masks
        assert len(found.masks) == sum(clock is not None for clock in clocks.values())
        for id in {version.id for version in self.history}:
            self.read(id, clocks, wanted.get(id))

    def read(self, id, clocks, wanted):
        try:
            entry = self.session.get(id, **clocks).entry
        except NotFoundError:
            assert wanted is None
            return
        except DeniedError:
            # What was erased is read by nobody.
            assert self.newest(id).status is Status.erased
            return
        if wanted is not None:
            assert (entry.summary.split()[-1], entry.trust_tier, entry.status) == (
                wanted.word,
                wanted.tier,
                wanted.status,
            )


@pytest.mark.parametrize("backends", BACKENDS)
def test_any_history_is_replayed_as_the_oracle_replays_it(backends):
    machine = type("Machine", (Histories,), {"configuration": BACKENDS[backends]})
    run_state_machine_as_test(machine, settings=settings(max_examples=35, stateful_step_count=25, deadline=None))
