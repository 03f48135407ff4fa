"""A reindex beside processes at work: what they were told they hold, they hold, and the log says so."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta

import pytest

from amem_core import Memory
from amem_core.errors import CorruptionError, UnavailableError

_TASKS = 40
_WORKERS = 3


def file_tasks(root: str, count: int) -> None:
    with Memory.open(root) as memory, memory.session(author="owner") as session:
        for number in range(count):
            session.create_task(domain="notes", title=f"Task {number}", summary="to be done")


def work_until_none_is_left(root: str, name: str, tell: Callable[[str, str, int], None]) -> None:
    """Claim each task, give it back once, complete it the second time; tell of what was acknowledged."""
    with Memory.open(root) as memory, memory.session(author=name) as session:
        while claimed := session.claim_next(lease=timedelta(hours=1)):
            task = claimed[0].task
            tell("task.claimed", task.id, task.fence)
            if task.fence == 1:
                session.release(task.id, fence=task.fence)
            else:
                session.complete(task.id, fence=task.fence)
                tell("task.completed", task.id, task.fence)


def start(root: str, name: str, writing: int) -> int:
    """Fork a process that works and writes a line of JSON for each thing that it was told it had done."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work_until_none_is_left(root, name, lambda *told: os.write(writing, json.dumps(told).encode() + b"\n"))
            code = 0
        finally:
            os._exit(code)
    return child


def test_what_is_claimed_and_completed_during_reindexes_is_held_once_and_in_the_log(root):
    file_tasks(root, _TASKS)
    reading, writing = os.pipe()
    workers = [start(root, f"session:{number}", writing) for number in range(_WORKERS)]
    os.close(writing)
    told = b""
    with Memory.open(root) as memory, memory.session(author="owner") as owner:
        # Each reindex begins when somebody has just been answered, and the others are in the middle of something.
        while data := os.read(reading, 1 << 16):
            told += data
            assert owner.reindex(domain="notes")[0].tasks == _TASKS
        assert [os.waitpid(worker, 0)[1] for worker in workers] == [0] * _WORKERS
        os.close(reading)
        acknowledged = sorted(json.loads(line) for line in told.splitlines())
        in_the_log = sorted(
            [event.kind, event.subject, event.data["fence"]]
            for event in memory.runtime.log.read("notes")
            if event.kind in {"task.claimed", "task.completed"}
        )
        assert acknowledged == in_the_log
        ids = {subject for _, subject, _ in acknowledged}
        assert len(ids) == _TASKS
        assert acknowledged == sorted(
            [kind, id, fence]
            for id in ids
            for kind, fence in (("task.claimed", 1), ("task.claimed", 2), ("task.completed", 2))
        )
        assert [check for check in memory.doctor() if check.state != "ok"] == []


def test_the_first_look_of_a_process_while_another_is_carrying_raises_no_alarm(root, agent, memory, monkeypatch):
    file_tasks(root, 9)
    head = memory.runtime.log.head
    with Memory.open(root) as other, other.session(author="session:two") as busy:

        def head_before_a_claim(domain: str) -> int:
            found = head(domain)
            busy.claim_next()
            return found

        monkeypatch.setattr(memory.runtime.log, "head", head_before_a_claim)
        assert agent.claim_next()[0].task.holder == "session:one"


@pytest.mark.parametrize("step", ["claim_next", "complete"])
def test_a_step_that_went_down_with_a_damaged_ledger_is_not_acknowledged(root, agent, memory, monkeypatch, step):
    file_tasks(root, 1)
    ledger = memory.runtime.ledger
    real = getattr(ledger, step)

    def step_before_damage(*args, **kwargs):
        answer = real(*args, **kwargs)
        ledger._database.start_anew()
        return answer

    def go() -> int:
        task = agent.claim_next()[0].task if step == "claim_next" else agent.complete(claimed.id, fence=1)
        return task.fence

    claimed = agent.claim_next()[0].task if step == "complete" else None
    with monkeypatch.context() as patch:
        patch.setattr(ledger, step, step_before_damage)
        with pytest.raises(UnavailableError, match="is not in the log") as caught:
            go()
    assert "again" in caught.value.hint
    assert go() == 1


def test_a_reindex_follows_a_log_that_was_set_back_and_raises_no_more_alarm(root, owner, memory):
    file_tasks(root, 3)
    claimed = owner.claim_next()[0].task
    path = os.path.join(root, "state", "log", "notes.jsonl")
    with open(path, "rb+") as log:
        lines = log.readlines()
        log.truncate(sum(map(len, lines[:-1])))
    with pytest.raises(CorruptionError, match="has followed"):
        owner.complete(claimed.id, fence=1)
    assert owner.reindex(domain="notes")[0].tasks == 3
    assert [check.state for check in memory.doctor() if "ledger" in check.name] == ["ok", "ok"]
    assert owner.claim_next()[0].task.id == claimed.id
