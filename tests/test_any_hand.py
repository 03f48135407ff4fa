"""Whatever hands do to files between whatever amem does: one rebuild takes it in, and record, log and index agree."""

from __future__ import annotations

import itertools
import os
import re
import tempfile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, rule, run_state_machine_as_test

from amem_core import Draft, Memory
from amem_core.domain.labels import Label, Status, Tier
from amem_core.errors import AmemError, CorruptionError, InternalError
from amem_core.testing import CountingIds, FrozenClock

# What a hand can do for which no rebuild is the remedy: it took a text away, or put an old one back.
LOSSES = {"file-missing", "file-displaced", "history-orphaned", "version-missing", "file-erased", "file-unlogged"}
# What one edit or one erasure leaves between two entries.
LINKS = {"link-dangling", "link-one-way", "link-conflict", "link-cycle", "review-due"}
CHANGES = {
    "the version up": (r"^version: .*$", "version: 77"),
    "the version back": (r"^version: .*$", "version: 1"),
    "no version": (r"^version: .*\n", ""),
    "verified": (r"^trust_tier: .*$", "trust_tier: verified"),
    "a lower label": (r"^classification: .*$", "classification: public"),
    "another author": (r"^author: .*$", "author: session:somebody"),
    "archived": (r"^status: .*$", "status: archived"),
    "active": (r"^status: .*$", "status: active"),
    "no times": (r"^(created|updated): .*\n", ""),
    "a time to come": (r"^updated: .*$", "updated: 2199-01-01T00:00:00Z"),
}


class Hands(RuleBasedStateMachine):
    """A memory, and a person with an editor on its files."""

    entries = Bundle("entries")

    def __init__(self):
        super().__init__()
        self.top = tempfile.TemporaryDirectory()
        self.root = os.path.join(self.top.name, "root")
        Memory.init(self.root, domain="notes")
        self.clock = FrozenClock()
        self.memory = Memory.open(self.root, clock=self.clock, ids=CountingIds())
        self.session = self.memory.session(author="owner")
        self.words = (f"word{number}" for number in itertools.count())
        self.labels = {}

    def teardown(self):
        self.memory.close()
        self.top.cleanup()

    def file(self, id):
        return os.path.join(self.root, "record", "notes", f"{id}.md")

    def fact(self, **fields):
        word = next(self.words)
        return Draft(domain="notes", type="fact", title=f"{word} title", summary=f"it says {word}", **fields)

    def trying(self, call):
        """Do what a hand may have made impossible; it fails in a sentence, and never as damage or a fault of amem."""
        try:
            return call()
        except (CorruptionError, InternalError):
            raise
        except AmemError:
            return None

    @rule(target=entries, label=st.sampled_from(["internal", "confidential"]))
    def write(self, label):
        return self.session.write(self.fact(label=Label.parse(label))).id

    @rule(target=entries, id=entries)
    def change(self, id):
        self.trying(lambda: self.session.write(self.fact(id=id)))
        return id

    @rule(target=entries, id=entries)
    def supersede(self, id):
        done = self.trying(lambda: self.session.write(self.fact(supersedes=(id,))))
        return id if done is None else done.id

    @rule(id=entries)
    def verify(self, id):
        self.trying(lambda: self.session.verify(id, oracle="data", evidence="seen", by="somebody"))

    @rule(id=entries)
    def reject(self, id):
        self.trying(lambda: self.session.reject(id, reason="no"))

    @rule(id=consumes(entries))
    def erase(self, id):
        self.trying(lambda: self.session.erase(id, reason="mistaken"))

    @rule(target=entries)
    def task(self):
        return self.session.create_task(domain="notes", title=next(self.words), summary="to be done").task.id

    @rule(days=st.integers(-2, 3))
    def wait(self, days):
        self.clock.advance(days=days)

    @rule(id=entries, how=st.lists(st.sampled_from(sorted(CHANGES)), max_size=3), text=st.booleans())
    def edit(self, id, how, text):
        if not os.path.exists(self.file(id)):
            return
        with open(self.file(id), encoding="utf-8") as file:
            before = changed = file.read()
        if "status: erased" in before:
            return
        for name in how:
            changed = re.sub(CHANGES[name][0], CHANGES[name][1], changed, count=1, flags=re.MULTILINE)
        if text:
            changed = re.sub(r"^summary: .*$", f"summary: by hand {next(self.words)}", changed, flags=re.MULTILINE)
        with open(self.file(id), "w", encoding="utf-8") as file:
            file.write(changed)

    @rule(
        target=entries, text=st.sampled_from(["---\ntitle: {}\n---\n", "---\ntitle: {}\ntrust_tier: verified\n---\n"])
    )
    def make(self, text):
        word = next(self.words)
        os.makedirs(os.path.dirname(self.file(word)), exist_ok=True)
        with open(self.file(f"mem-{word}"), "w", encoding="utf-8") as file:
            file.write(text.format(word))
        return f"mem-{word}"

    @rule(id=entries)
    def put_back(self, id):
        """Put the oldest text that is kept in the place of the current one."""
        history = os.path.join(self.root, "record", "notes", ".history", id)
        kept = sorted(os.listdir(history)) if os.path.isdir(history) else []
        if kept and os.path.exists(self.file(id)):
            with open(os.path.join(history, kept[0]), "rb") as file:
                data = file.read()
            with open(self.file(id), "wb") as file:
                file.write(data)

    @rule(id=entries)
    def delete(self, id):
        if os.path.exists(self.file(id)):
            os.unlink(self.file(id))

    @rule()
    def rebuild(self):
        found = self.memory.runtime.store
        before = {stored.id for stored in found.entries("notes")}
        first = self.session.materialize()[0]
        for one in first.adopted:
            entry = self.session.get(one.id).entry
            assert (entry.trust_tier, entry.verified, entry.version) == (Tier.raw, (), one.version)
            assert entry.author == "owner" or one.version == one.stated
        assert {stored.id for stored in found.entries("notes")} == before
        again = self.session.materialize()[0]
        assert again.adopted == ()
        assert (again.displaced, again.missing, again.refused) == (first.displaced, first.missing, first.refused)
        findings = self.session.fsck().findings
        assert [f for f in findings if f.rule not in LOSSES | LINKS] == []
        assert [f for one in self.session.verify_log() for f in one.findings] == []
        for hit in self.session.search("it says by hand title word", limit=100).hits:
            assert hit.digest == self.session.get(hit.id).digest

    @rule()
    def labels_never_fall_by_hand(self):
        """Of every entry that is served, the label is no lower than amem ever gave it."""
        self.session.materialize()
        for event in self.memory.runtime.log.read("notes"):
            if event.kind == "entry.written" and event.data["type"] == "fact":
                self.labels[event.subject] = Label.parse(event.data["label"])
        for kept in self.memory.runtime.index.versions("notes"):
            if kept.status is not Status.erased:
                assert kept.label >= self.labels.get(kept.id, Label.public)


def test_whatever_hands_do_one_rebuild_takes_it_in_and_everything_agrees():
    run_state_machine_as_test(Hands, settings=settings(max_examples=60, stateful_step_count=25, deadline=None))
