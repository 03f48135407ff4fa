"""L1, W1 and E1: a promise kept, an entry written and an event appended, beside the raw engines.

Wall time, taken in turns, medians of the rounds: all three wait for the disk.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import ExitStack

import litequeue

from amem_core import Draft, Memory, Session
from amem_core.domain.events import NewEvent
from benchmarks.harness import Row, interleave

_CALLS = 50
_BODY = "A paragraph of an ordinary length, as an agent would write it down. " * 20


def rows(scale: float = 1.0) -> list[Row]:
    """Return the rows of L1, W1 and E1; ``scale`` multiplies the number of rounds."""
    rounds = max(5, int(9 * scale))
    with ExitStack() as stack:
        top = stack.enter_context(tempfile.TemporaryDirectory())
        root = os.path.join(top, "root")
        Memory.init(root, domain="notes")
        memory = stack.enter_context(Memory.open(root))
        session = stack.enter_context(memory.session(author="session:bench"))
        return [
            *_promises(top, session, rounds),
            *_writes(top, session, rounds),
            *_events(top, memory, rounds),
        ]


def _promises(top: str, session: Session, rounds: int) -> list[Row]:
    """Claim and complete one task, events in the log and decided by the policy, beside two bare transactions."""
    for number in range(_CALLS * rounds * 2 + 10):
        session.create_task(domain="notes", title=f"Task {number}", summary="to be done")

    def ours() -> None:
        task = session.claim_next()[0].task
        session.complete(task.id, fence=task.fence)

    raw = _bare_queue(os.path.join(top, "raw.sqlite"), _CALLS * rounds + 10)
    kept, bare = interleave(ours, raw, rounds=rounds, calls=_CALLS)
    queue = litequeue.LiteQueue(os.path.join(top, "lite.sqlite"))
    # Out of the box it does not wait for the disk; beside a durable promise it has to.
    queue.conn.execute("PRAGMA synchronous = FULL")
    for number in range(_CALLS * rounds + 10):
        queue.put(f"task {number}")

    def lite() -> None:
        message = queue.pop()
        queue.done(message.message_id)

    again, other = interleave(ours, lite, rounds=rounds, calls=_CALLS)
    queue.conn.close()
    return [
        Row("L1", "claim + complete: at least 0.5 of the raw loop", 1 / kept, 1 / bare, "pairs/s", "higher"),
        Row("L1 litequeue", "at least 1.4 times litequeue", 1 / again, 1 / other, "pairs/s", "higher"),
    ]


def _bare_queue(path: str, count: int) -> Callable[[], None]:
    """Return a loop's step of two transactions on a bare table, each durable on its own."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE task (id INTEGER PRIMARY KEY, status INTEGER NOT NULL)")
    connection.execute("CREATE INDEX ready ON task(id) WHERE status = 0")
    connection.executemany("INSERT INTO task(status) VALUES(?)", [(0,)] * count)

    def step() -> None:
        claim = "UPDATE task SET status = 1 WHERE id = (SELECT min(id) FROM task WHERE status = 0) RETURNING id"
        ((id,),) = connection.execute(claim).fetchall()
        connection.execute("UPDATE task SET status = 2 WHERE id = ?", (id,))

    return step


def _writes(top: str, session: Session, rounds: int) -> list[Row]:
    """Write one entry, acknowledged, beside the same bytes as temp, fsync, rename and directory fsync."""
    numbers = itertools.count()
    directory = os.path.join(top, "raw")
    os.mkdir(directory)
    data = (_BODY + "x" * 500).encode()

    def ours() -> None:
        title = f"Entry {next(numbers)}"
        session.write(Draft(domain="notes", type="fact", title=title, summary="a fact", body=_BODY))

    def raw() -> None:
        path = os.path.join(directory, f"{next(numbers)}")
        descriptor = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(descriptor, data)
        os.fsync(descriptor)
        os.close(descriptor)
        os.rename(f"{path}.tmp", path)
        descriptor = os.open(directory, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    def group() -> None:
        first = next(numbers)
        session.write_many(
            [
                Draft(domain="notes", type="fact", title=f"Group {first} {n}", summary="a fact", body=_BODY)
                for n in range(16)
            ]
        )

    single, bare = interleave(ours, raw, rounds=rounds, calls=_CALLS)
    grouped, alone = interleave(group, ours, rounds=rounds, calls=5)
    return [
        Row("W1", "an acknowledged write: at most 2 times the raw one", single * 1e6, bare * 1e6, "µs", "lower"),
        Row(
            "W2",
            "write_many of 16, an entry: at most 0.35 of a single write",
            grouped / 16e-6,
            alone * 1e6,
            "µs",
            "lower",
        ),
    ]


def _events(top: str, memory: Memory, rounds: int) -> list[Row]:
    """Append one durable event, and a hundred, beside a bare locked append with fdatasync."""
    log, clock = memory.runtime.log, memory.runtime.clock
    event = NewEvent("entry.written", "mem-" + "0" * 26, "owner", clock.now(), {"version": 1, "digest": "0" * 64})
    bare = os.open(os.path.join(top, "raw.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    line = b"x" * 330 + b"\n"

    def ours() -> None:
        with log.writer("bench") as writer:
            writer.append([event])

    def raw() -> None:
        os.lockf(bare, os.F_LOCK, 0)
        os.write(bare, line)
        os.fdatasync(bare)
        os.lockf(bare, os.F_ULOCK, 0)

    def batch() -> None:
        with log.writer("bench") as writer:
            writer.append([event] * 100)

    single, least = interleave(ours, raw, rounds=rounds, calls=_CALLS)
    hundred, one = interleave(batch, ours, rounds=rounds, calls=5)
    os.close(bare)
    return [
        Row("E1", "a durable append: at least 0.8 of the raw one", 1 / single, 1 / least, "events/s", "higher"),
        Row(
            "E1 batch", "a batch of 100: at least 15 times single appends", 100 / hundred, 1 / one, "events/s", "higher"
        ),
    ]
