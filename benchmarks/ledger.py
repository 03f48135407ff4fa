"""L1, L2, L3 and L5 for the ledger alone, beside raw SQLite and litequeue, in the same run.

Wall time, taken in turns, medians of the rounds. The raw engine is the least that two transactions a
task can be: one table, one partial index, no events. L1 with policy, entries and handoffs, end to end,
is in ``benchmarks.memory``. ``python -m benchmarks ledger`` prints it; the scale multiplies rounds, and
the completed rows of L5 (a million at 1).
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import litequeue

from amem_core.domain.labels import Label
from amem_core.domain.queries import ReadFilter
from amem_core.domain.tasks import NewTask
from amem_core.ports.ledger import Ledger
from amem_core.ports.log import Log
from amem_ledger import _queries
from amem_ledger.config import SqliteSettings
from amem_ledger.sqlite import open_ledger
from amem_store.config import JsonlSettings
from amem_store.jsonl import open_log
from benchmarks.harness import Row, interleave

_CALLS = 200
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_LEASE = timedelta(minutes=10)
_READABLE = ReadFilter({"d": Label.restricted})
_WORKERS = 16
_TABLE = "CREATE TABLE task (id INTEGER PRIMARY KEY, priority INTEGER, status INTEGER, holder TEXT, until TEXT)"
_INDEX = "CREATE INDEX ready ON task (priority, id) WHERE status = 0"
_CLAIM = (
    "UPDATE task SET status = 1, holder = 'session:a', until = '2026-01-01T00:10:00Z' WHERE id ="
    " (SELECT id FROM task WHERE status = 0 ORDER BY priority, id LIMIT 1) RETURNING id"
)


def rows(scale: float = 1.0) -> list[Row]:
    """Return the rows of L1 (the adapter's share), L2, L3 and L5."""
    rounds = max(5, int(7 * scale))
    return [*_promises(rounds), *_crowd(max(3, int(5 * scale))), _batch(rounds), _flat(int(1_000_000 * scale))]


# -- L1 -------------------------------------------------------------------------------------------


def _promises(rounds: int) -> list[Row]:
    count = 4 * rounds * _CALLS
    with ExitStack() as stack:
        top = stack.enter_context(tempfile.TemporaryDirectory())
        ledger = _filled(stack, os.path.join(top, "ours"), count)
        log = open_log(os.path.join(top, "ours"), JsonlSettings())
        stack.callback(log.close)
        raw = _raw(os.path.join(top, "raw.sqlite"), 2 * count)
        stack.callback(raw.close)
        queue = litequeue.LiteQueue(os.path.join(top, "queue.sqlite"))
        stack.callback(queue.conn.close)
        for _ in range(count):
            queue.put("task")
        _follow(ledger, log)
        alone, bare = interleave(lambda: _keep(ledger), lambda: _keep_raw(raw), rounds=rounds, calls=_CALLS)
        _follow(ledger, log)
        logged, bare_again = interleave(lambda: _keep(ledger, log), lambda: _keep_raw(raw), rounds=rounds, calls=_CALLS)
        ours, other = interleave(lambda: _keep(ledger), lambda: _keep_queued(queue), rounds=rounds, calls=_CALLS)
    goal = "claim + complete, one worker, against two transactions with synchronous=FULL"
    return [
        Row("L1 adapter", f"{goal}: the ledger's own share", 1 / alone, 1 / bare, "pairs/s", "higher"),
        Row("L1 logged", f"{goal}: with durable events, at least 0.5", 1 / logged, 1 / bare_again, "pairs/s", "higher"),
        Row("L1 litequeue", "claim + complete, neither waits for the disk", 1 / ours, 1 / other, "pairs/s", "higher"),
    ]


def _filled(stack: ExitStack, root: str, count: int, settings: SqliteSettings | None = None) -> Ledger:
    os.makedirs(root)
    ledger = open_ledger(root, settings or SqliteSettings())
    stack.callback(ledger.close)
    for number in range(count):
        ledger.file(NewTask(id=f"mem-{number:08}", domain="d", label=Label.internal), actor="owner", now=_NOW)
        if number % 500 == 0:
            _forget(ledger)
    _forget(ledger)
    return ledger


def _forget(ledger: Ledger) -> None:
    """Empty the outbox without a log."""
    while outgoing := ledger.outgoing("d"):
        ledger.relayed("d", number=outgoing[-1].number, through=0)


def _follow(ledger: Ledger, log: Log) -> None:
    _forget(ledger)
    ledger.apply("d", [], through=log.head("d"))


def _keep(ledger: Ledger, log: Log | None = None) -> None:
    """Claim a task and complete it; the events go to the log, or nowhere."""
    (task,) = ledger.claim_next(_READABLE, holder="session:a", lease=_LEASE, now=_NOW)
    _relay(ledger, log)
    ledger.complete(task.id, fence=task.fence, actor="session:a", handoff=None, now=_NOW)
    _relay(ledger, log)


def _relay(ledger: Ledger, log: Log | None) -> None:
    if log is None:
        outgoing = ledger.outgoing("d")
        ledger.relayed("d", number=outgoing[-1].number, through=0)
        return
    with log.writer("d") as writer:
        outgoing = ledger.outgoing("d")
        writer.append([item.event for item in outgoing])
        ledger.relayed("d", number=outgoing[-1].number, through=writer.head)


def _raw(path: str, count: int) -> sqlite3.Connection:
    raw = sqlite3.connect(path, isolation_level=None, timeout=60)
    raw.execute("PRAGMA journal_mode = WAL")
    raw.execute("PRAGMA synchronous = FULL")
    raw.execute(_TABLE)
    raw.execute(_INDEX)
    raw.execute("BEGIN")
    raw.executemany("INSERT INTO task (id, priority, status) VALUES (?, 100, 0)", ((n,) for n in range(count)))
    raw.execute("COMMIT")
    return raw


def _keep_raw(raw: sqlite3.Connection) -> None:
    raw.execute("BEGIN IMMEDIATE")
    ((id,),) = raw.execute(_CLAIM).fetchall()
    raw.execute("COMMIT")
    raw.execute("BEGIN IMMEDIATE")
    raw.execute("UPDATE task SET status = 2, until = NULL WHERE id = ?", (id,))
    raw.execute("COMMIT")


def _keep_queued(queue: litequeue.LiteQueue) -> None:
    message = queue.pop()
    queue.done(message.message_id)


# -- L2 -------------------------------------------------------------------------------------------


def _crowd(rounds: int) -> list[Row]:
    """Sixteen processes, each commit on the disk: pairs a second, and the slowest claims."""
    each = 40
    found: dict[str, list[tuple[float, float]]] = {"ours": [], "raw": []}
    with tempfile.TemporaryDirectory() as top:
        for number in range(rounds):
            root, path = os.path.join(top, f"root{number}"), os.path.join(top, f"raw{number}.sqlite")
            with ExitStack() as stack:
                _filled(stack, root, _WORKERS * each)
            _raw(path, _WORKERS * each).close()
            works = {"ours": _worker(root, each), "raw": _raw_worker(path, each)}
            for name in ("ours", "raw") if number % 2 else ("raw", "ours"):
                found[name].append(_together(works[name], each))
    ours, raw = ([statistics.median(figure) for figure in zip(*found[name], strict=True)] for name in ("ours", "raw"))
    what = f"{_WORKERS} processes, synchronous=FULL"
    return [
        Row("L2 throughput", f"{what}: at least 0.9 of the busy handler's", ours[0], raw[0], "pairs/s", "higher"),
        Row("L2 p99", f"{what}: a claim's p99 at most a quarter of its", 1e3 * ours[1], 1e3 * raw[1], "ms", "lower"),
    ]


Work = Callable[[], Iterator[float]]


def _worker(root: str, each: int) -> Work:
    def work() -> Iterator[float]:
        ledger = open_ledger(root, SqliteSettings(synchronous="full", wait=120))
        for _ in range(each):
            begun = time.perf_counter()
            (task,) = ledger.claim_next(_READABLE, holder="session:a", lease=_LEASE, now=_NOW)
            yield time.perf_counter() - begun
            ledger.complete(task.id, fence=task.fence, actor="session:a", handoff=None, now=_NOW)

    return work


def _raw_worker(path: str, each: int) -> Work:
    def work() -> Iterator[float]:
        raw = sqlite3.connect(path, isolation_level=None, timeout=120)
        raw.execute("PRAGMA synchronous = FULL")
        for _ in range(each):
            begun = time.perf_counter()
            raw.execute("BEGIN IMMEDIATE")
            ((id,),) = raw.execute(_CLAIM).fetchall()
            raw.execute("COMMIT")
            yield time.perf_counter() - begun
            raw.execute("BEGIN IMMEDIATE")
            raw.execute("UPDATE task SET status = 2, until = NULL WHERE id = ?", (id,))
            raw.execute("COMMIT")

    return work


def _together(work: Work, each: int) -> tuple[float, float]:
    """Run the work in all processes at once; return pairs a second and the p99 of a claim's seconds."""
    context = multiprocessing.get_context("fork")
    answers, start = context.SimpleQueue(), context.Barrier(_WORKERS + 1)

    def process() -> None:
        start.wait()
        answers.put(json.dumps(list(work())))

    processes = [context.Process(target=process) for _ in range(_WORKERS)]
    for one in processes:
        one.start()
    start.wait()
    begun = time.perf_counter()
    claims = sorted(seconds for _ in processes for seconds in json.loads(answers.get()))
    took = time.perf_counter() - begun
    for one in processes:
        one.join()
    return _WORKERS * each / took, claims[int(len(claims) * 0.99)]


# -- L3 and L5 ------------------------------------------------------------------------------------


def _batch(rounds: int) -> Row:
    """Ten tasks in one claim, beside one at a time, each commit on the disk."""
    calls = 20
    with ExitStack() as stack:
        top = stack.enter_context(tempfile.TemporaryDirectory())
        ledger = _filled(stack, os.path.join(top, "ours"), 20 * rounds * calls, SqliteSettings(synchronous="full"))

        def claim(limit: int) -> int:
            return len(ledger.claim_next(_READABLE, holder="session:a", lease=_LEASE, now=_NOW, limit=limit))

        ten, singles = interleave(lambda: claim(10), lambda: [claim(1) for _ in range(10)], rounds=rounds, calls=calls)
    return Row(
        "L3", "claim_next(10): at least 4 times single claims, FULL", 10 / ten, 10 / singles, "tasks/s", "higher"
    )


def _flat(done: int) -> Row:
    """A claim's median with so many completed rows, beside that with a thousand."""
    calls = 300
    with ExitStack() as stack:
        top = stack.enter_context(tempfile.TemporaryDirectory())
        ledgers = []
        for count in (max(done, 1000), 1000):
            root = os.path.join(top, str(count) if count > 1000 else "few")
            with ExitStack() as filling:
                _filled(filling, root, 2 * calls)
            _complete(root, count)
            ledgers.append(open_ledger(root, SqliteSettings()))
            stack.callback(ledgers[-1].close)
        taken: tuple[list[float], list[float]] = ([], [])
        for _, (which, ledger) in itertools.product(range(2 * calls), enumerate(ledgers)):
            begun = time.perf_counter()
            (task,) = ledger.claim_next(_READABLE, holder="session:a", lease=_LEASE, now=_NOW)
            taken[which].append(time.perf_counter() - begun)
            ledger.complete(task.id, fence=task.fence, actor="session:a", handoff=None, now=_NOW)
    many, few = (1e6 * statistics.median(figures) for figures in taken)
    goal = f"a claim with {done} completed rows: at most 1.25 times that with 1000"
    return Row("L5", goal, many, few, "µs", "lower")


def _complete(root: str, count: int) -> None:
    """Put completed rows into the file, half of them before the ready ones and half behind."""
    moment = "2026-01-01T00:00:00.000000Z"
    connection = sqlite3.connect(os.path.join(root, "state", "ledger.sqlite"))
    connection.executemany(
        _queries.FILE,
        (
            (
                f"mem-{'0z'[n % 2]}{n:09}",
                "d",
                1,
                2,
                100,
                None,
                None,
                "session:a",
                1,
                None,
                None,
                moment,
                moment,
                3,
                None,
                None,
            )
            for n in range(count)
        ),
    )
    connection.commit()
    connection.close()


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main()
