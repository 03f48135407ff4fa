"""What a call may cost, counted: what does not move with the neighbours of the machine is a test, what does is a benchmark."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# Counts before anything is imported, since the adapters take the calls as they find them. SQLite waits for
# the disk at checkpoints alone.
COUNTING = """
import json, os, sys
counted = []
def counting(name, real):
    def call(descriptor):
        counted.append(name)
        return real(descriptor)
    return call
for name in ("fsync", "fdatasync"):
    setattr(os, name, counting(name, getattr(os, name)))
from amem_core import Draft, Memory
def fact(number=0, **fields):
    return Draft(domain="notes", type="fact", title=f"Fact {number}", summary="a fact", **fields)
answers = []
def count(call):
    counted.clear()
    result = call()
    answers.append(list(counted))
    return result
with Memory.open(sys.argv[1]) as memory, memory.session(author="owner") as owner:
    first = owner.write(fact(body="one")).id
    owner.create_task(domain="notes", title="First", summary="to warm up")
    exec(sys.argv[2])
print(json.dumps(answers))
"""


@pytest.fixture
def counted(root):
    """Return what each ``count(lambda: …)`` of a script waited for, in order."""

    def run(script):
        done = subprocess.run(
            [sys.executable, "-c", COUNTING, root, script], check=True, capture_output=True, text=True
        )
        return json.loads(done.stdout)

    return run


def test_a_new_entry_waits_for_the_disk_three_times_its_text_its_event_and_its_directory(counted):
    assert counted("count(lambda: owner.write(fact(1)))") == [["fsync", "fdatasync", "fsync"]]


def test_a_group_waits_once_for_each_text_and_twice_for_all_of_it(counted):
    (waits,) = counted("count(lambda: owner.write_many([fact(number) for number in range(1, 17)]))")
    assert sorted(waits) == ["fdatasync", *["fsync"] * 17]


def test_a_new_version_waits_once_more_for_what_it_replaces(counted):
    _, waits = counted("[count(lambda: owner.write(fact(id=first, body=body))) for body in ('two', 'three')]")
    assert sorted(waits) == ["fdatasync", *["fsync"] * 3]


def test_a_task_filed_waits_as_a_write_does_and_each_transition_once(counted):
    filed, claimed, renewed, completed = counted(
        "count(lambda: owner.create_task(domain='notes', title='Second', summary='to be counted'))\n"
        "task = count(owner.claim_next)[0].task\n"
        "count(lambda: owner.heartbeat(task.id, fence=task.fence))\n"
        "count(lambda: owner.complete(task.id, fence=task.fence))"
    )
    assert filed == ["fsync", "fdatasync", "fsync"]
    assert claimed == renewed == completed == ["fdatasync"]


def test_a_read_waits_for_nothing(counted):
    reads = (
        "for call in (lambda: owner.search('fact'), lambda: owner.get(first), owner.t0, lambda: owner.recall('fact'))"
    )
    assert counted(f"{reads}: count(call)") == [[], [], [], []]
