"""What turned out wrong stays out, what was checked says so, and a chain leads to what holds."""

from __future__ import annotations

import itertools
import shutil
from datetime import UTC, date, datetime

import pytest
from crashing import killed_at
from hypothesis import given, settings
from hypothesis import strategies as st

from amem_core import Draft, Memory
from amem_core.domain.labels import Status, Tier
from amem_core.domain.values import normalised
from amem_core.errors import ConflictError, DeniedError, InvalidError, NotFoundError

WRONG = "The staging box listens on port 8080, behind the proxy."
MOST_STEPS = 200
LINE = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=40)


def fact(title="Port", body=WRONG, **fields):
    return Draft(domain="notes", type="fact", title=title, summary=title, body=body, **fields)


@pytest.fixture
def agent(memory):
    with memory.session(author="session:one", destination="model") as session:
        yield session


# -- rejection ----------------------------------------------------------------------------------------


def test_a_rejected_value_is_served_no_more_and_refused_with_its_reason(owner):
    wrong = owner.write(fact())
    done = owner.reject(wrong.id, reason="that was the old box")
    assert (done.version, done.reason) == (2, "that was the old box")
    assert owner.search("staging box").hits == ()
    reading = owner.get(wrong.id)
    assert reading.entry.status is Status.demoted
    assert any("that was the old box" in notice for notice in reading.notices)
    with pytest.raises(ConflictError, match="that was the old box") as refused:
        owner.write(fact())
    assert f"amem lift {wrong.id}" in refused.value.hint


@pytest.mark.parametrize(
    "body",
    [
        WRONG.upper(),
        "  The  staging box\n listens on\tport 8080, behind the proxy. ",
        "\u200bThe sta\u00adging box listens on port 8080, behind the proxy.\ufeff",
        "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in WRONG),
    ],
)
@pytest.mark.parametrize("title", ["Port", "pOrT ", "Where it listens"])
def test_no_dress_brings_a_rejected_value_back(owner, title, body):
    owner.reject(owner.write(fact()).id, reason="no")
    with pytest.raises(ConflictError, match="rejected"):
        owner.write(fact(title, body))


def test_a_short_value_is_rejected_under_its_own_title_alone(owner):
    owner.reject(owner.write(fact("Postgres", "version 14")).id, reason="no")
    assert owner.write(fact("Redis", "version 14")).changed
    with pytest.raises(ConflictError):
        owner.write(fact("POSTGRES", "Version  14"))


def test_every_way_in_refuses_a_rejected_value(owner, agent, tmp_path):
    kept = owner.write(fact("Kept", "something else that is long enough to stand for itself"))
    owner.reject(owner.write(fact()).id, reason="no")
    with pytest.raises(ConflictError):
        agent.write(fact())
    with pytest.raises(ConflictError):
        owner.write_many([fact("Fine", "nothing wrong with this one"), fact()])
    assert owner.search("nothing wrong").hits == ()
    with pytest.raises(ConflictError):
        owner.write(fact(id=kept.id))
    with pytest.raises(ConflictError):
        owner.create_task(domain="notes", title="Port", summary="a task", body=WRONG)
    task = owner.create_task(domain="notes", title="Look", summary="look at the port").task
    fence = owner.claim(task.id).task.fence
    with pytest.raises(ConflictError):
        owner.complete(task.id, fence=fence, result=WRONG)
    assert owner.complete(task.id, fence=fence, result="It listens on another port.").handoff


def test_a_rejected_section_is_left_out_of_an_ingest_and_the_others_are_taken(owner, tmp_path):
    owner.reject(owner.write(fact()).id, reason="the old box")
    (tmp_path / "notes.md").write_text(f"# Fine\n\nAll of this holds.\n\n# Where\n\n{WRONG}\n")
    done = owner.ingest([str(tmp_path)], domain="notes")
    assert done.written == 1
    assert [refused.path.rpartition("/")[2] for refused in done.refused] == ["notes.md#where"]
    assert "the old box" in done.refused[0].reason


def test_a_bundle_that_states_a_rejected_value_is_refused_and_nothing_of_it_is_taken(owner, tmp_path):
    other = tmp_path / "other"
    Memory.init(other, domain="notes")
    with Memory.open(other) as elsewhere, elsewhere.session(author="owner") as session:
        session.write(fact("Another", "An entry with nothing wrong in it at all."))
        session.write(fact("Where it listens"))
        session.export("notes", str(tmp_path / "bundle"))
    owner.reject(owner.write(fact()).id, reason="the old box")
    with pytest.raises(ConflictError, match="the old box"):
        owner.import_bundle(str(tmp_path / "bundle"))
    assert owner.search("nothing wrong").hits == ()


def test_a_rejection_needs_a_reason_and_an_entry_and_happens_once(owner):
    wrong = owner.write(fact())
    for reason in ("", "  ", "\n"):
        with pytest.raises(InvalidError, match="reason"):
            owner.reject(wrong.id, reason=reason)
    with pytest.raises(NotFoundError):
        owner.reject("mem-unknown", reason="no")
    owner.reject(wrong.id, reason="first")
    with pytest.raises(ConflictError, match="rejected already: first"):
        owner.reject(wrong.id, reason="second")


def test_lifting_brings_the_entry_back_and_lets_its_value_be_stated(owner):
    wrong = owner.write(fact())
    owner.reject(wrong.id, reason="no")
    with pytest.raises(InvalidError, match="reason"):
        owner.lift(wrong.id, reason=" ")
    done = owner.lift(wrong.id, reason="it does after all")
    assert done.status is Status.active
    assert [hit.id for hit in owner.search("staging box").hits] == [wrong.id]
    assert owner.write(fact("Where it listens")).changed
    history = owner.get(wrong.id).entry.rejected
    assert [(item["reason"], item["lifted"]["reason"]) for item in history] == [("no", "it does after all")]
    with pytest.raises(ConflictError, match="not rejected"):
        owner.lift(wrong.id, reason="again")


def test_lifting_one_rejection_leaves_anothers_of_the_same_value(owner):
    first = owner.write(fact("Port"))
    second = owner.write(fact("Where it listens"))
    owner.reject(first.id, reason="no")
    owner.reject(second.id, reason="no, still")
    owner.lift(first.id, reason="yes")
    with pytest.raises(ConflictError, match="no, still"):
        owner.write(fact("A third"))
    owner.lift(second.id, reason="yes")
    assert owner.write(fact("A third")).changed


def test_the_owner_goes_back_to_what_was_merely_superseded(owner):
    first = owner.write(fact("Style", "We indent every file with tabs, in every language."))
    second = owner.write(fact("Style", "We indent every file with spaces, in every language.", supersedes=(first.id,)))
    third = owner.write(fact("Style", "We indent every file with tabs, in every language.", supersedes=(second.id,)))
    assert third.changed
    assert [hit.id for hit in owner.search("indent").hits] == [third.id]


def test_what_is_derived_from_a_rejected_value_is_due_for_review_and_nothing_new_is(owner, clock):
    wrong = owner.write(fact())
    child = owner.write(fact("Child", "So the proxy forwards to 8080.", derived_from=(wrong.id,)))
    grandchild = owner.write(fact("Grandchild", "So the firewall opens 8080.", derived_from=(child.id,)))
    done = owner.reject(wrong.id, reason="the old box")
    assert set(done.flagged) == {child.id, grandchild.id}
    for id in done.flagged:
        assert owner.get(id).entry.review_by == clock.now().date()
        assert any("reviewed" in notice for notice in owner.get(id).notices)
    with pytest.raises(ConflictError, match="the old box"):
        owner.write(fact("Late", "A late conclusion.", derived_from=(wrong.id,)))


def test_an_agent_rejects_what_nobody_verified_and_lifts_nothing(owner, agent):
    wrong = owner.write(fact())
    sure = owner.write(fact("Sure", "This was checked by somebody."))
    owner.verify(sure.id, oracle="human", evidence="seen", by="the lead")
    agent.reject(wrong.id, reason="I saw another port")
    with pytest.raises(DeniedError, match="verified"):
        agent.reject(sure.id, reason="I doubt it")
    with pytest.raises(DeniedError):
        agent.lift(wrong.id, reason="never mind")


def test_a_rejection_outlives_the_index_and_the_tombstones_files(owner, root):
    wrong = owner.write(fact())
    owner.reject(wrong.id, reason="no")
    shutil.rmtree(f"{root}/record/notes/.tombstones")
    owner.reindex(domain="notes")
    with pytest.raises(ConflictError):
        owner.write(fact())


def test_a_superseded_entry_that_is_rejected_answers_for_no_time_and_its_chain_leads_on(owner):
    then = datetime(2025, 3, 1, tzinfo=UTC)
    first = owner.write(fact(valid_from=date(2025, 1, 1)))
    second = owner.write(fact("Port", "It listens on 9090.", valid_from=date(2025, 6, 1), supersedes=(first.id,)))
    assert [hit.id for hit in owner.search("listens", valid_at=then).hits] == [first.id]
    owner.reject(first.id, reason="never was")
    assert owner.search("listens", valid_at=then).hits == ()
    assert owner.get(first.id).head == second.id
    assert f"{first.id} is demoted and superseded by {second.id}" in owner.get(first.id).notices
    with pytest.raises(ConflictError):
        owner.write(fact())
    assert owner.lift(first.id, reason="it was").status is Status.superseded
    assert [hit.id for hit in owner.search("listens", valid_at=then).hits] == [first.id]


@settings(max_examples=60, deadline=None)
@given(LINE.filter(str.strip), LINE)
def test_another_value_is_never_refused_for_a_rejected_one(tmp_path_factory, title, body):
    root = tmp_path_factory.mktemp("root") / "r"
    Memory.init(root, domain="notes")
    with Memory.open(root) as memory, memory.session(author="owner") as session:
        session.reject(session.write(fact("Port", "version 14")).id, reason="no")
        try:
            session.write(fact(title, body))
        except ConflictError:
            assert (normalised(title), normalised(body or title)) == ("port", "version 14")


# -- verification -------------------------------------------------------------------------------------


def test_a_verification_is_an_item_of_a_list_and_none_is_overwritten(owner, memory):
    entry = owner.write(fact())
    assert owner.get(entry.id).entry.verified == ()
    owner.verify(entry.id, oracle="ci", evidence="run 4412 is green", by="release pipeline")
    owner.verify(entry.id, oracle="human", evidence="read it", by="the lead")
    found = owner.get(entry.id).entry
    assert found.trust_tier is Tier.verified
    assert [(item["oracle"], item["evidence"], item["by"]) for item in found.verified] == [
        ("ci", "run 4412 is green", "release pipeline"),
        ("human", "read it", "the lead"),
    ]
    kinds = [event.kind for event in memory.runtime.log.read("notes")]
    assert kinds == ["entry.written", "entry.verified", "entry.verified"]


@pytest.mark.parametrize(
    ("oracle", "evidence", "by", "told"),
    [
        ("ci", "", "somebody", "evidence"),
        ("ci", "  ", "somebody", "evidence"),
        ("ci", "seen", "", "by"),
        ("vibes", "seen", "somebody", "oracle"),
        ("model", "seen", "somebody", "oracle"),
        ("human", "seen", "session:other", "agent"),
        ("human", "seen", "librarian", "agent"),
        ("human", "seen", "tap:mail", "agent"),
        ("human", "seen", "owner", "asserted"),
        ("human", "seen", " Owner ", "asserted"),
    ],
)
def test_a_verification_without_oracle_evidence_or_another_verifier_is_refused(owner, oracle, evidence, by, told):
    entry = owner.write(fact())
    with pytest.raises(InvalidError, match=told):
        owner.verify(entry.id, oracle=oracle, evidence=evidence, by=by)
    assert owner.get(entry.id).entry.trust_tier is Tier.raw


def test_no_agent_verifies(agent, owner):
    entry = owner.write(fact())
    with pytest.raises(DeniedError, match="only the owner"):
        agent.verify(entry.id, oracle="human", evidence="seen", by="the lead")


def test_whoever_asserted_a_text_does_not_verify_it_under_a_shorter_name(owner, agent):
    entry = agent.write(fact())
    with pytest.raises(InvalidError, match="asserted"):
        owner.verify(entry.id, oracle="human", evidence="seen", by="One")


def test_a_changed_text_starts_again_and_the_same_text_changes_nothing(owner):
    entry = owner.write(fact())
    owner.verify(entry.id, oracle="human", evidence="seen", by="the lead")
    assert not owner.write(fact(id=entry.id)).changed
    assert owner.get(entry.id).entry.trust_tier is Tier.verified
    owner.write(fact(body="It listens on 9090.", id=entry.id))
    changed = owner.get(entry.id).entry
    assert (changed.trust_tier, changed.verified) == (Tier.raw, ())
    assert owner.get(entry.id, version=2).entry.verified


# -- supersession -------------------------------------------------------------------------------------


def test_a_chain_resolves_to_its_head_and_keeps_both_directions(owner):
    ids = [owner.write(fact("One", "The first of them.")).id]
    for number in ("second", "third", "fourth"):
        ids.append(owner.write(fact(number, f"The {number} of them.", supersedes=(ids[-1],))).id)
    first = owner.get(ids[0])
    assert first.head == ids[-1]
    assert any(ids[-1] in notice for notice in first.notices)
    assert first.entry.superseded_by == ids[1]
    assert owner.get(ids[1]).entry.supersedes == (ids[0],)
    assert first.entry.body == "The first of them."
    with pytest.raises(ConflictError) as refused:
        owner.write(fact("Late", "Too late.", supersedes=(ids[0],)))
    assert ids[-1] in refused.value.hint


def test_a_link_that_leads_nowhere_is_refused_at_the_write(owner):
    for links in ({"supersedes": ("mem-nowhere",)}, {"derived_from": ("mem-nowhere",)}):
        with pytest.raises(NotFoundError, match="mem-nowhere"):
            owner.write(fact(**links))
    assert owner.search("staging box").hits == ()


def test_a_cycle_that_a_hand_made_ends_the_chain(owner, root):
    first = owner.write(fact("One", "The first of them."))
    second = owner.write(fact("Two", "The second of them.", supersedes=(first.id,)))
    path = f"{root}/record/notes/{second.id}.md"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("status: active\n", f"status: superseded\nsuperseded_by: {first.id}\n"))
    owner.reindex(domain="notes")
    assert owner.get(first.id).head == second.id


# -- crashes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["reject", "lift"])
def test_a_rejection_that_is_killed_at_any_step_is_whole_or_absent(tmp_path, what):
    root = str(tmp_path / "root")
    Memory.init(root, domain="notes")
    with Memory.open(root) as memory, memory.session(author="owner") as session:
        id = session.write(fact()).id
        if what == "lift":
            session.reject(id, reason="no")

    def act(root):
        with Memory.open(root) as memory, memory.session(author="owner") as session:
            return getattr(session, what)(id, reason="because").id

    for after in (False, True):
        for number in itertools.count(1):
            assert number < MOST_STEPS
            copy = str(tmp_path / f"copy-{after}-{number}")
            shutil.copytree(root, copy)
            outcome = killed_at(number, lambda copy=copy: act(copy), after=after)
            with Memory.open(copy) as memory, memory.session(author="owner") as session:
                session.write(fact("Next", "The next write succeeds, whatever happened before it."))
                status = session.get(id).entry.status
                rejected = status is Status.demoted
                if outcome.acknowledged is not None:
                    assert rejected == (what == "reject")
                if rejected:
                    with pytest.raises(ConflictError):
                        session.write(fact("Where it listens"))
                else:
                    assert session.write(fact("Where it listens")).changed
            shutil.rmtree(copy)
            if outcome.killed_at is None:
                break
