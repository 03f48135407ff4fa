"""Correction in awkward company: disguised names, other ceilings, twins, other domains, hands and crashes."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import unicodedata
from dataclasses import replace

import pytest
from crashing import killed_at
from hypothesis import given, settings
from hypothesis import strategies as st
from test_correction import MOST_STEPS, WRONG, fact

from amem_core import Label, Memory
from amem_core.domain.labels import Status, Tier
from amem_core.domain.values import normalised, value_keys
from amem_core.errors import AmemError, ConflictError, CorruptionError, DeniedError, InvalidError, NotFoundError

SECRET = "the quokka of the board said so"


@pytest.fixture
def agent(memory):
    with memory.session(author="session:one", destination="model") as session:
        yield session


def said(error):
    return f"{error.value} {error.value.hint}"


def edit(root, id, old, new):
    path = os.path.join(root, "record", "notes", f"{id}.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert old in text
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))


# -- the value in disguise ----------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)
# What nobody sees, and what is white space anyhow: every one of them can stand anywhere, or at the ends and for a space.
UNSEEN = st.sampled_from("\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u061c\u180e\ufe0f\u3164\U000e0041")
BLANK = st.text(st.sampled_from(" \t\n\u00a0\u2003\u3000\u2028"), min_size=1, max_size=3)
FORMS = st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"])


@st.composite
def disguises(draw, text):
    """Return a text that reads as ``text``, dressed in another form, case and spacing."""
    dressed = unicodedata.normalize(draw(FORMS), text)
    if draw(st.booleans()):
        dressed = unicodedata.normalize("NFD", dressed).casefold()
    words = dressed.split()
    dressed = "".join(word + draw(BLANK) for word in words)
    place = draw(st.integers(0, len(dressed)))
    return draw(BLANK) + dressed[:place] + draw(UNSEEN) + dressed[place:]


@settings(max_examples=400)
@given(st.data(), TEXT, TEXT)
def test_every_disguise_of_a_value_has_its_keys(data, title, body):
    keys = value_keys(title, "", body)
    assert value_keys(data.draw(disguises(title)), "", data.draw(disguises(body))) == keys


@settings(max_examples=400)
@given(st.tuples(TEXT, TEXT), st.tuples(TEXT, TEXT))
def test_two_values_share_a_key_only_where_they_read_the_same(one, other):
    shared = set(value_keys(one[0], "", one[1])) & set(value_keys(other[0], "", other[1]))
    same = normalised(one[1]) == normalised(other[1])
    alone = same and len(normalised(one[1])) >= 40
    assert bool(shared) == (same and (alone or normalised(one[0]) == normalised(other[0])))


def test_parts_of_a_value_do_not_run_into_each_other():
    assert value_keys("ab", "", "c") != value_keys("a", "", "bc")
    assert not set(value_keys("", "", WRONG)) & set(value_keys("alone", "", WRONG)) - set(value_keys("x", "", WRONG))


def test_a_mark_that_folds_to_a_letter_does_not_hide_a_value(owner):
    # A Greek iota below a vowel, its capital beside it, and the title case of one with two marks.
    text = "\u1fb7 \u03b1\u0302\u0345 \u1f80 is written so in that inscription, say the editors"
    owner.reject(owner.write(fact("Inscription", text)).id, reason="misread")
    for dressed in (text.title(), unicodedata.normalize("NFD", text).upper(), unicodedata.normalize("NFD", text)):
        with pytest.raises(ConflictError):
            owner.write(fact("Inscription again", dressed))


# -- who is told why ----------------------------------------------------------------------------------


def test_a_session_is_not_told_a_reason_above_its_ceiling(owner, agent, tmp_path):
    wrong = owner.write(fact(label=Label.restricted))
    owner.reject(wrong.id, reason=SECRET)
    with pytest.raises(ConflictError, match="above this session's ceiling") as refused:
        agent.write(fact())
    assert "quokka" not in said(refused)
    assert wrong.id not in said(refused)
    (tmp_path / "notes.md").write_text(f"# Where\n\n{WRONG}\n\n# Fine\n\nAll well.\n")
    done = agent.ingest([str(tmp_path / "notes.md")], domain="notes")
    assert done.written == 1
    assert len(done.refused) == 1
    assert "quokka" not in str(done)
    with pytest.raises(ConflictError) as refused:
        agent.create_task(domain="notes", title="Port", summary="Port", body=WRONG)
    assert "quokka" not in said(refused)
    with pytest.raises(ConflictError, match="quokka"):
        owner.write(fact())


def test_a_reason_that_is_told_raises_the_label_of_the_session(owner, agent):
    owner.reject(owner.write(fact(label=Label.internal)).id, reason="no")
    assert agent.label is Label.public
    with pytest.raises(ConflictError):
        agent.write(fact())
    assert agent.label is Label.internal


def test_a_session_does_not_learn_of_what_it_may_not_read_by_rejecting_or_deriving(owner, agent):
    wrong = owner.write(fact(label=Label.internal))
    hidden = owner.write(fact("Hidden", "So the vault opens.", derived_from=(wrong.id,), label=Label.restricted))
    done = agent.reject(wrong.id, reason="no")
    assert done.flagged == ()
    assert [notice for notice in done.notices if "1 more" in notice]
    assert hidden.id not in str(done)
    assert owner.get(hidden.id).entry.review_by is not None
    with pytest.raises(NotFoundError):
        agent.write(fact("Guess", "A guess.", derived_from=(hidden.id,)))


def test_an_agent_keeps_an_origin_that_it_may_not_read_when_it_writes_a_new_version(owner, agent):
    hidden = owner.write(fact("Hidden", "What only the owner reads.", label=Label.restricted))
    seen = owner.write(fact("Seen", "What all read.", derived_from=(hidden.id,), label=Label.internal))
    other = owner.write(fact("Other", "Another origin."))
    origins = (hidden.id, other.id)
    assert agent.write(fact("Seen", "What all read.", id=seen.id, derived_from=origins)).changed


def test_an_agent_rejects_no_entry_of_type_policy(owner, agent):
    policy = owner.write(replace(fact("Reviews", "Every change has a reviewer who did not write it."), type="policy"))
    with pytest.raises(DeniedError, match="policy"):
        agent.reject(policy.id, reason="it slows me down")
    assert owner.reject(policy.id, reason="it was a draft").version == 2


def test_what_is_verified_just_before_an_agent_rejects_it_stays(owner, agent, monkeypatch):
    entry = owner.write(fact())
    take = agent.runtime.log.writer

    def writer(domain, **options):
        monkeypatch.undo()
        owner.verify(entry.id, oracle="human", evidence="seen", by="the lead")
        return take(domain, **options)

    monkeypatch.setattr(agent.runtime.log, "writer", writer)
    with pytest.raises(DeniedError, match="verified"):
        agent.reject(entry.id, reason="I doubt it")
    assert owner.get(entry.id).entry.status is Status.active


# -- other entries of the value -----------------------------------------------------------------------


def test_another_entry_that_states_the_rejected_value_is_due_and_named_and_cannot_be_written_or_verified(owner):
    first, second = owner.write(fact("Port")), owner.write(fact("Where it listens", WRONG.upper()))
    other = owner.write(fact("Database", "The database listens on port 5432, behind the same proxy."))
    done = owner.reject(first.id, reason="the old box")
    assert done.flagged == (second.id,)
    assert any(f"amem reject {second.id}" in notice for notice in done.notices)
    assert any("reviewed" in notice for notice in owner.get(second.id).notices)
    assert owner.get(other.id).entry.review_by is None
    with pytest.raises(ConflictError, match="the old box"):
        owner.write(fact("Where it listens", WRONG.upper()))
    with pytest.raises(ConflictError, match="the old box"):
        owner.verify(second.id, oracle="ci", evidence="run 1", by="the pipeline")


def test_lifting_tells_what_keeps_the_value_refused(owner):
    first, second = owner.write(fact("Port")), owner.write(fact("Where it listens"))
    owner.reject(first.id, reason="no")
    owner.reject(second.id, reason="no")
    done = owner.lift(first.id, reason="yes")
    assert any(second.id in notice for notice in done.notices)


def test_what_was_erased_as_another_entry_is_not_lifted_before_that(owner):
    first, second = owner.write(fact("Port")), owner.write(fact("Where it listens"))
    owner.reject(first.id, reason="no")
    owner.erase(second.id, reason="mistaken")
    with pytest.raises(ConflictError, match="erased"):
        owner.lift(first.id, reason="yes")
    assert owner.search("staging box").hits == ()
    owner.lift(second.id, reason="yes")
    assert owner.lift(first.id, reason="yes").status is Status.active


def test_a_rejection_reaches_what_is_derived_in_another_domain(owner, root, clock):
    Memory.init(root, domain="other")
    with Memory.open(root, clock=clock) as memory, memory.session(author="owner") as session:
        wrong = session.write(fact())
        near = session.write(fact("Near", "So it is near.", derived_from=(wrong.id,)))
        far = session.write(replace(fact("Far", "So it is far.", derived_from=(near.id,)), domain="other"))
        done = session.reject(wrong.id, reason="the old box")
        assert set(done.flagged) == {near.id, far.id}
        assert session.get(far.id).entry.review_by == clock.now().date()
        with pytest.raises(ConflictError, match="the old box"):
            session.write(replace(fact("Late", "Too late.", derived_from=(wrong.id,)), domain="other"))


def test_a_rejection_reads_each_file_once_however_much_is_derived(owner, monkeypatch):
    wrong = owner.write(fact())
    drafts = [fact(f"Derived {n}", f"What follows, {n}.", derived_from=(wrong.id,)) for n in range(20)]
    owner.write_many(drafts)
    reads = []
    read = owner.runtime.store.read
    monkeypatch.setattr(owner.runtime.store, "read", lambda *given: reads.append(given) or read(*given))
    assert len(owner.reject(wrong.id, reason="no").flagged) == 20
    assert len(reads) < 5 * 21


def test_what_is_derived_while_a_rejection_looks_around_is_due_as_well(owner, agent, monkeypatch):
    wrong = owner.write(fact())
    child = owner.write(fact("Child", "So the proxy forwards.", derived_from=(wrong.id,)))
    take = agent.runtime.log.writer
    late = []

    def writer(domain, **options):
        monkeypatch.undo()
        late.append(owner.write(fact("Late", "So the firewall opens.", derived_from=(wrong.id,))).id)
        owner.write(fact("Child", "It does not follow after all.", id=child.id))
        return take(domain, **options)

    monkeypatch.setattr(agent.runtime.log, "writer", writer)
    assert agent.reject(wrong.id, reason="no").flagged == tuple(late)


def test_a_task_whose_text_was_rejected_says_so_to_whoever_claims_it(owner):
    task = owner.create_task(domain="notes", title="Move it", summary="Move the box behind the other proxy.").task
    owner.reject(task.id, reason="there is no other proxy")
    (view,) = owner.claim_next()
    assert any("there is no other proxy" in notice for notice in view.notices)


def test_a_file_of_more_sections_than_one_write_takes_is_ingested_whole(owner, tmp_path):
    sections = "".join(f"# Section {n}\n\nText of section {n}.\n\n" for n in range(1005))
    (tmp_path / "long.md").write_text(f"{sections}# Where\n\n{WRONG}\n")
    owner.reject(owner.write(fact()).id, reason="no")
    done = owner.ingest([str(tmp_path / "long.md")], domain="notes")
    assert (done.written, len(done.refused)) == (1005, 1)


# -- chains and circles -------------------------------------------------------------------------------


def test_a_chain_that_ends_in_what_was_rejected_does_not_say_that_it_holds(owner):
    first = owner.write(fact("One", "The first of them."))
    second = owner.write(fact("Two", "The second of them.", supersedes=(first.id,)))
    third = owner.write(fact("Three", "The third of them.", supersedes=(second.id,)))
    owner.reject(third.id, reason="no")
    for id in (first.id, second.id):
        reading = owner.get(id)
        assert reading.head == third.id
        assert any("demoted" in notice for notice in reading.notices)
        assert not any("holds now" in notice for notice in reading.notices)
        with pytest.raises(ConflictError) as refused:
            owner.write(fact("Late", "Too late.", id=id))
        assert "write a new entry" in refused.value.hint
    with pytest.raises(ConflictError) as refused:
        owner.write(fact("Late", "Too late.", id=third.id))
    assert f"amem lift {third.id}" in refused.value.hint


def test_no_entry_is_derived_from_itself_by_any_way(owner):
    first = owner.write(fact("One", "The first of them."))
    second = owner.write(fact("Two", "The second of them.", derived_from=(first.id,)))
    third = owner.write(fact("Three", "The third of them.", derived_from=(second.id,)))
    for origin in (first, second, third):
        with pytest.raises(InvalidError, match="derived from itself"):
            owner.write(fact("One", "The first of them.", id=first.id, derived_from=(origin.id,)))
    alone, other = owner.write(fact("Four", "The fourth.")), owner.write(fact("Five", "The fifth."))
    with pytest.raises(InvalidError, match="derived from itself"):
        owner.write_many(
            [
                fact("Four", "The fourth.", id=alone.id, derived_from=(other.id,)),
                fact("Five", "The fifth.", id=other.id, derived_from=(alone.id,)),
            ]
        )
    assert owner.write(fact("Four", "The fourth.", id=alone.id, derived_from=(third.id, other.id))).changed


# -- verification -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "by",
    [
        "\u200bowner",
        "\uff4f\uff57\uff4e\uff45\uff52",
        "OWNER\u00ad",
        "session :other",
        "\uff53ession:other",
        "se\u200bssion:other",
        "librarian\u200b",
        "agent",
        "Agent: reviewer",
        "\u200b",
        "\u3164",
    ],
)
def test_no_disguise_makes_a_verifier_of_an_agent_or_of_the_author(owner, by):
    entry = owner.write(fact())
    with pytest.raises(InvalidError):
        owner.verify(entry.id, oracle="human", evidence="seen", by=by)


@pytest.mark.parametrize("blank", ["\u200b", "\u2060\u00ad", "\ufeff", "\u3164"])
def test_what_nobody_sees_is_no_reason_and_no_evidence(owner, blank):
    entry = owner.write(fact())
    with pytest.raises(InvalidError, match="evidence"):
        owner.verify(entry.id, oracle="human", evidence=blank, by="the lead")
    with pytest.raises(InvalidError, match="reason"):
        owner.reject(entry.id, reason=blank)


def test_whoever_stated_the_text_once_does_not_verify_it_later(owner, agent, memory):
    entry = agent.write(fact())
    with memory.session(author="session:two", destination="model") as other:
        other.write(fact(id=entry.id, body="Something else for a while."))
        other.write(fact(id=entry.id, body=WRONG.upper()))
    for by in ("one", "two"):
        with pytest.raises(InvalidError, match="asserted"):
            owner.verify(entry.id, oracle="human", evidence="seen", by=by)
    assert owner.verify(entry.id, oracle="human", evidence="seen", by="the lead").verifications == 1


def test_whoever_stated_the_text_in_an_entry_that_was_superseded_does_not_verify_it_in_the_next(owner, agent):
    first = agent.write(fact())
    second = owner.write(fact("Port", "Another port.", supersedes=(first.id,)))
    third = owner.write(fact(supersedes=(second.id,)))
    with pytest.raises(InvalidError, match="asserted"):
        owner.verify(third.id, oracle="human", evidence="seen", by="one")


def test_a_broken_earlier_version_does_not_stand_in_the_way_of_a_verification(owner, root):
    entry = owner.write(fact())
    owner.write(fact(id=entry.id, tags=("a",)))
    owner.write(fact(id=entry.id, tags=("b",)))
    for number in (1, 2):
        with open(os.path.join(root, "record", "notes", ".history", entry.id, f"{number}.md"), "w") as file:
            file.write("broken")
    assert owner.verify(entry.id, oracle="human", evidence="seen", by="the lead").version == 4


def test_a_text_that_a_hand_changed_is_taken_in_before_it_is_verified(owner, agent, root):
    entry = agent.write(fact())
    edit(root, entry.id, "8080", "9090")
    with pytest.raises(ConflictError, match="by hand"):
        owner.verify(entry.id, oracle="human", evidence="seen", by="the lead")
    owner.reindex(domain="notes")
    with pytest.raises(InvalidError, match="asserted"):
        owner.verify(entry.id, oracle="human", evidence="seen", by="owner")
    owner.verify(entry.id, oracle="human", evidence="seen", by="the lead")
    assert owner.get(entry.id).entry.trust_tier is Tier.verified


def test_a_draft_cannot_bring_its_own_verification(agent):
    for name in ("verified", "rejected", "trust_tier", "status"):
        with pytest.raises(InvalidError, match=name):
            agent.write(fact(extra={name: [{"by": "the lead", "oracle": "human", "evidence": "seen"}]}))


# -- hands on files -----------------------------------------------------------------------------------


def test_lifting_opens_what_an_entry_said_when_it_was_rejected_and_what_a_hand_made_of_it(owner, root):
    wrong = owner.write(fact())
    owner.reject(wrong.id, reason="no")
    edit(root, wrong.id, "8080", "9090")
    owner.reindex(domain="notes")
    for number in ("8080", "9090"):
        with pytest.raises(ConflictError):
            owner.write(fact("Where it listens", WRONG.replace("8080", number)))
    owner.lift(wrong.id, reason="both were right")
    for number in ("8080", "9090"):
        assert owner.write(fact("Where it listens", WRONG.replace("8080", number))).changed


def test_an_entry_that_was_lifted_and_changed_leaves_no_marks_of_what_was_never_rejected(owner, root):
    entry = owner.write(fact())
    owner.reject(entry.id, reason="no")
    owner.lift(entry.id, reason="yes")
    marks = os.path.join(root, "record", "notes", ".tombstones")
    before = sorted(os.listdir(marks))
    for number in range(5):
        owner.write(fact(body=f"{WRONG} It was moved {number} times.", id=entry.id))
    owner.reindex(domain="notes")
    assert sorted(os.listdir(marks)) == before
    assert owner.fsck(domain="notes").findings == ()


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"label": "zzz", "cause": "rejected"},
        {"label": ["internal"], "cause": "rejected"},
        {"label": "internal", "cause": "whim"},
    ],
)
def test_a_tombstone_that_a_hand_broke_refuses_its_value_until_it_is_made_again(owner, agent, root, item):
    wrong = owner.write(fact())
    owner.reject(wrong.id, reason="no")
    marks = os.path.join(root, "record", "notes", ".tombstones")
    for name in os.listdir(marks):
        rest = {"id": wrong.id, "reason": "no", "by": "owner", "when": "", "lifted": None, **item}
        mark = {"format": "durable-memory/tombstone/0", "value": name.partition(".")[0], "items": [rest]}
        with open(os.path.join(marks, name), "w", encoding="utf-8") as file:
            json.dump(mark, file)
    for session in (owner, agent):
        with pytest.raises(CorruptionError, match="tombstone") as refused:
            session.write(fact("Where it listens"))
        assert "amem fsck --repair" in refused.value.hint
    assert owner.write(fact("Other", "Nothing of it.")).changed
    owner.fsck(domain="notes", repair=True)
    with pytest.raises(ConflictError):
        owner.write(fact("Where it listens"))


# -- crashes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["verify", "lift of an erased one", "reject with others"])
def test_a_correction_that_is_killed_at_any_step_is_whole_or_absent(tmp_path, what):
    root = str(tmp_path / "root")
    Memory.init(root, domain="notes")
    with Memory.open(root) as memory, memory.session(author="owner") as session:
        id = session.write(fact()).id
        child = session.write(fact("Child", "So the proxy forwards.", derived_from=(id,))).id
        if what == "lift of an erased one":
            session.erase(id, reason="mistaken")

    def act(root):
        with Memory.open(root) as memory, memory.session(author="owner") as session:
            if what == "verify":
                return session.verify(id, oracle="ci", evidence="run 1", by="the pipeline").id
            if what == "reject with others":
                return session.reject(id, reason="no").id
            return session.lift(id, reason="yes").id

    for after in (False, True):
        for number in itertools.count(1):
            assert number < MOST_STEPS
            copy = str(tmp_path / f"copy-{after}-{number}")
            shutil.copytree(root, copy)
            outcome = killed_at(number, lambda copy=copy: act(copy), after=after)
            with Memory.open(copy) as memory, memory.session(author="owner") as session:
                session.write(fact("Next", "The next write succeeds, whatever happened before it."))
                done = {"verify": verified, "reject with others": rejected}.get(what, lifted)(session, id, child)
                assert done or outcome.acknowledged is None
                assert [check for check in memory.doctor() if check.state == "alarm"] == []
            shutil.rmtree(copy)
            if outcome.killed_at is None:
                break


def verified(session, id, _):
    entry = session.get(id).entry
    assert (entry.trust_tier is Tier.verified) == (len(entry.verified) == 1)
    kinds = [event.kind for event in session.runtime.log.read("notes") if event.subject == id]
    # What was logged and given up again counts for nothing.
    assert kinds.count("entry.verified") - kinds.count("entry.abandoned") == len(entry.verified)
    return bool(entry.verified)


def rejected(session, id, child):
    demoted = session.get(id).entry.status is Status.demoted
    assert (session.get(child).entry.review_by is not None) == demoted
    if demoted:
        with pytest.raises(ConflictError):
            session.write(fact("Where it listens"))
    return demoted


def lifted(session, id, _):
    try:
        session.write(fact("Where it listens"))
    except ConflictError:
        # It did not happen, and can be done again.
        session.lift(id, reason="yes")
        session.write(fact("Where it listens"))
        return False
    with pytest.raises(AmemError):
        session.lift(id, reason="twice")
    return True
