"""``kill -9`` between any two steps: an acknowledged write is there, any other is whole or absent."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from dataclasses import dataclass

import pytest
from crashing import killed_at

from amem_core import Draft, Memory
from amem_core.domain.tasks import TaskStatus
from amem_core.errors import AmemError, NotFoundError

MOST_STEPS = 200
BODY = "The whole body, from first to last word.\n\n" + "filler " * 50


@dataclass(frozen=True)
class Before:
    """A root with one entry, one task that is claimed, and a bundle beside it."""

    root: str
    entry: str
    task: str
    fence: int


@pytest.fixture
def before(tmp_path):
    root = str(tmp_path / "root")
    Memory.init(root, domain="notes")
    with Memory.open(root) as memory, memory.session(author="owner") as session:
        entry = session.write(Draft(domain="notes", type="fact", title="First", summary="the first fact", body=BODY)).id
        task = session.create_task(domain="notes", title="Promise", summary="to be kept").task.id
        fence = session.claim(task).task.fence
    return Before(root, entry, task, fence)


def written(before):
    with Memory.open(before.root) as memory, memory.session(author="owner") as session:
        return session.write(Draft(domain="notes", type="fact", title="New", summary="zebra", body=BODY)).id


def changed(before):
    with Memory.open(before.root) as memory, memory.session(author="owner") as session:
        draft = Draft(domain="notes", type="fact", id=before.entry, title="First", summary="zebra", body=BODY)
        return session.write(draft).id


def superseded(before):
    with Memory.open(before.root) as memory, memory.session(author="owner") as session:
        draft = Draft(
            domain="notes", type="fact", title="Second", summary="zebra", body=BODY, supersedes=(before.entry,)
        )
        return session.write(draft).id


def group_written(before):
    with Memory.open(before.root) as memory, memory.session(author="owner") as session:
        drafts = [Draft(domain="notes", type="fact", title=f"{n}", summary="zebra", body=BODY) for n in range(3)]
        return ",".join(answer.id for answer in session.write_many(drafts))


def task_filed(before):
    with Memory.open(before.root) as memory, memory.session(author="owner") as session:
        return session.create_task(domain="notes", title="Another", summary="zebra", body=BODY).task.id


def task_completed(before):
    with Memory.open(before.root) as memory, memory.session(author="owner") as session:
        return session.complete(before.task, fence=before.fence, result="zebra, and all of it").id


def look_after(before):
    """Open the root again, as the next process does, and check that its parts agree."""
    with Memory.open(before.root) as memory, memory.session(author="owner") as session:
        found = session.search("zebra").hits
        bodies: dict[str, str] = {}
        for hit in found:
            reading = session.get(hit.id)
            assert reading.entry.version == hit.version
            assert reading.digest == hit.digest
            bodies[hit.id] = reading.entry.body
        tasks = {node.task.id: node.task for node in session.tasks()}
        after = session.write(Draft(domain="notes", type="fact", title="After", summary="the next write succeeds"))
        assert session.get(after.id).entry.title == "After"
        checks = memory.doctor()
        assert [check for check in checks if check.state != "ok"] == []
        kept = session.get(before.entry).entry
        assert kept.body == BODY
        reindexed = session.reindex(domain="notes")[0]
        assert reindexed.broken == ()
        assert reindexed.edited_by_hand == ()
        assert {(hit.id, hit.digest) for hit in session.search("zebra").hits} == {(hit.id, hit.digest) for hit in found}
        assert {node.task.id: node.task for node in session.tasks()} == tasks
    return bodies, tasks


def every_crash(before, tmp_path, action):
    """Yield what is found after a crash at each step of ``action``, each time on a fresh copy of the root."""
    for after in (False, True):
        for number in itertools.count(1):
            assert number < MOST_STEPS, "the action never ends"
            copy = str(tmp_path / f"copy-{after}-{number}")
            shutil.copytree(before.root, copy)
            here = Before(copy, before.entry, before.task, before.fence)
            outcome = killed_at(number, lambda here=here: action(here), after=after)
            yield outcome, *look_after(here)
            shutil.rmtree(copy)
            if outcome.killed_at is None:
                break


@pytest.mark.parametrize("action", [written, changed, superseded])
def test_a_write_that_is_killed_at_any_step_is_whole_or_absent_and_there_when_acknowledged(before, tmp_path, action):
    seen = set()
    for outcome, bodies, _ in every_crash(before, tmp_path, action):
        assert set(bodies.values()) <= {BODY}
        assert len(bodies) in {0, 1}
        if outcome.acknowledged is not None:
            assert list(bodies) == [outcome.acknowledged]
        seen.add((outcome.killed_at is None, len(bodies)))
    assert (False, 0) in seen
    assert (False, 1) in seen
    assert (True, 1) in seen


def test_a_group_that_is_killed_at_any_step_is_there_with_all_its_entries_or_with_none(before, tmp_path):
    for outcome, bodies, _ in every_crash(before, tmp_path, group_written):
        assert len(bodies) in {0, 3}
        if outcome.acknowledged is not None:
            assert sorted(bodies) == sorted(outcome.acknowledged.split(","))


def test_a_filing_that_is_killed_at_any_step_leaves_no_task_without_text_and_no_text_without_task(before, tmp_path):
    for outcome, bodies, tasks in every_crash(before, tmp_path, task_filed):
        new = set(tasks) - {before.task}
        assert new == set(bodies)
        if outcome.acknowledged is not None:
            assert new == {outcome.acknowledged}


def test_a_completion_that_is_killed_at_any_step_holds_when_acknowledged_and_keeps_its_result(before, tmp_path):
    for outcome, bodies, tasks in every_crash(before, tmp_path, task_completed):
        task = tasks[before.task]
        if outcome.acknowledged is not None:
            assert task.status is TaskStatus.completed
        if task.status is TaskStatus.completed:
            assert task.handoff in bodies


def test_an_erasure_that_is_killed_at_any_step_is_finished_by_the_next_one(before, tmp_path):
    def erased(here):
        with Memory.open(here.root) as memory, memory.session(author="owner") as session:
            return session.erase(here.entry, reason="requested").id

    for after in (False, True):
        for number in itertools.count(1):
            assert number < MOST_STEPS
            copy = str(tmp_path / f"copy-{after}-{number}")
            shutil.copytree(before.root, copy)
            here = Before(copy, before.entry, before.task, before.fence)
            outcome = killed_at(number, lambda here=here: erased(here), after=after)
            with Memory.open(copy) as memory, memory.session(author="owner") as session:
                with contextlib.suppress(NotFoundError):
                    session.erase(before.entry, reason="requested")
                with pytest.raises(NotFoundError, match="was erased"):
                    session.erase(before.entry, reason="requested")
                with pytest.raises(AmemError):
                    session.get(before.entry)
            assert b"from first to last word" not in b"".join(every_byte(copy))
            shutil.rmtree(copy)
            if outcome.killed_at is None:
                break


def every_byte(root):
    for directory, _, files in os.walk(root):
        for name in files:
            with open(os.path.join(directory, name), "rb") as file:
                yield file.read()
