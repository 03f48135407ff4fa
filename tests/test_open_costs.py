"""Opening a root and the first calls cost the same however much it holds: nothing is listed, scanned or read through.

Counted, not measured: listings, bytes read, events read of the log, and steps of the database.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from amem_core import Draft, Memory

# Counts before anything is imported, since the adapters take the calls as they find them.
COUNTING = """
import json, os, sqlite3, sys
STEPS = 1000
counts = {}
def add(name, number=1):
    counts[name] = counts.get(name, 0) + number
def counted(module, name, measure):
    real = getattr(module, name)
    def call(*args, **kwargs):
        result = real(*args, **kwargs)
        add(name, measure(result))
        return result
    setattr(module, name, call)
for name in ("listdir", "scandir", "open", "stat"):
    counted(os, name, lambda result: 1)
for name in ("read", "pread"):
    counted(os, name, len)
connect = sqlite3.connect
def watched(*args, **kwargs):
    connection = connect(*args, **kwargs)
    connection.set_progress_handler(lambda: add("steps"), STEPS)
    return connection
sqlite3.connect = watched
from amem_core import Draft, Memory
from amem_store.files import FilesStore
from amem_store.jsonl import JsonlLog
def generator(kind, name, what):
    real = getattr(kind, name)
    def call(*args, **kwargs):
        add(name)
        for item in real(*args, **kwargs):
            add(what)
            yield item
    setattr(kind, name, call)
generator(JsonlLog, "read", "events")
generator(FilesStore, "entries", "listed")
generator(FilesStore, "marks", "marked")
answers = {}
def count(name, call):
    counts.clear()
    result = call()
    answers.setdefault(name, []).append(dict(counts))
    return result
root, id = sys.argv[1:]
number = 0
def fact(**fields):
    global number
    number += 1
    return Draft(domain="notes", type="fact", title=f"Added {number}", summary="written while counting", **fields)
memory = count("open", lambda: Memory.open(root))
session = count("session", lambda: memory.session(author="owner"))
for _ in range(2):
    count("search", lambda: session.search("zebra"))
    count("t0", session.t0)
    count("get", lambda: session.get(id))
    count("recall", lambda: session.recall("zebra"))
    count("write", lambda: session.write(fact()))
    count("new version", lambda: session.write(fact(id=id)))
    count("task", lambda: session.create_task(domain="notes", title="To do", summary="soon"))
    count("claim", session.claim_next)
memory.close()
print(json.dumps(answers))
"""
SMALL, LARGE = 50, 2000
HALVES = 8 * 4096
GRANTS = 16


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    """Return two roots that differ in how many entries they hold, and the one entry of each that is looked for."""

    def fill(count):
        root = str(tmp_path_factory.mktemp("root") / str(count))
        Memory.init(root, domain="notes")
        with Memory.open(root) as memory, memory.session(author="owner") as session:
            id = session.write(Draft(domain="notes", type="fact", title="Zebra", summary="It has stripes.")).id
            for begin in range(0, count, 500):
                drafts = [
                    Draft(domain="notes", type="fact", title=f"Fact {number}", summary=f"about {number}")
                    for number in range(begin, min(begin + 500, count))
                ]
                session.write_many(drafts)
            # The ledger follows what was logged since somebody used it last, once.
            session.create_task(domain="notes", title="Before", summary="it was counted")
        return root, id

    return fill(SMALL), fill(LARGE)


@pytest.fixture(scope="module")
def counts(roots):
    """Return what each call cost in a first process after a clean close, in either root."""

    def run(root, id):
        done = subprocess.run([sys.executable, "-c", COUNTING, root, id], check=True, capture_output=True, text=True)
        return json.loads(done.stdout)

    return [run(*root) for root in roots]


CALLS = ["open", "session", "search", "t0", "get", "recall", "write", "new version", "task", "claim"]


@pytest.mark.parametrize("call", CALLS)
def test_a_call_reads_and_lists_as_much_in_a_large_root_as_in_a_small_one(counts, call):
    small, large = (found[call] for found in counts)
    # A search by halves in the log reads a page more for twice the log.
    for one, other in zip(small, large, strict=True):
        for what in one.keys() | other.keys():
            most = one.get(what, 0)
            if what in {"read", "pread"}:
                assert other.get(what, 0) <= most + HALVES, (call, what, one, other)
            elif what == "steps":
                assert other.get(what, 0) <= most + 2, (call, what, one, other)
            elif what == "stat":
                # Grants that were written a moment ago are looked at more often.
                assert other.get(what, 0) <= most + GRANTS, (call, what, one, other)
            else:
                assert other.get(what, 0) == most, (call, what, one, other)


def test_no_call_reads_the_log_or_lists_the_record(counts):
    for found in counts:
        for call, costs in found.items():
            for cost in costs:
                assert cost.get("listed", 0) == 0, call
                # What the ledger follows of a write is the write's own.
                assert cost.get("events", 0) <= 4, (call, cost)
