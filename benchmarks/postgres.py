"""L2 to L5 for the ledger in PostgreSQL, beside raw SQL, procrastinate and pgqueuer, in the same run.

The server is one of its own that waits for the disk at each commit. The raw loop is the least that
claiming and completing can be: one statement and one commit each, one table, one partial index, no
events. What the peers claim and complete is theirs: procrastinate fetches and finishes a job, pgqueuer
dequeues and logs jobs. ``python -m benchmarks postgres`` prints it; the scale multiplies rounds, and
the completed rows of L5 (a million at 1). Without a server, or a peer, its rows say ``unavailable``.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql

from amem_conformance.services.base import private_of
from amem_conformance.services.postgres import Postgres
from amem_core.domain.labels import Label
from amem_core.domain.queries import ReadFilter
from amem_core.domain.tasks import NewTask
from amem_core.errors import UnavailableError
from amem_core.ports.ledger import Ledger
from amem_ledger.config import PostgresSettings
from amem_ledger.postgres.ledger import open_ledger
from benchmarks.harness import Row, interleave

try:
    import procrastinate
    from procrastinate.jobs import Status
except ImportError:
    procrastinate = None
try:
    from pgqueuer import queries as pgqueuer
except ImportError:
    pgqueuer = None

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_LEASE = timedelta(minutes=10)
_READABLE = ReadFilter({"d": Label.restricted})
_CALLS = 100
_TABLE = "CREATE TABLE raw (id bigint PRIMARY KEY, priority integer, status integer, holder text, until timestamptz)"
_INDEX = "CREATE INDEX raw_ready ON raw (priority, id) WHERE status = 0"
_CLAIM = (
    "UPDATE raw SET status = 1, holder = 'session:a', until = %s WHERE id = (SELECT id FROM raw WHERE status = 0"
    " ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
)
_DONE = "UPDATE raw SET status = 2, until = NULL WHERE id = %s"
_names = itertools.count(1)


def rows(scale: float = 1.0) -> list[Row]:
    """Return the rows of L2 to L5."""
    rounds = max(5, int(5 * scale))
    with ExitStack() as stack:
        try:
            server = stack.enter_context(private_of(Postgres(durable=True)))
        except UnavailableError as error:
            return [_unavailable(f"L{number} postgres", str(error)) for number in (2, 3, 4, 5)]
        dsn = server.address["dsn"]
        return [
            *_crowd(dsn, max(3, rounds // 2)),
            _batch(dsn, rounds),
            *_alone(dsn, rounds),
            *_peers(dsn, rounds),
            _flat(dsn, int(1_000_000 * scale)),
        ]


def _unavailable(id: str, why: str) -> Row:
    return Row(id, f"unavailable: {why}", 0.0, 1.0, "-", "higher")


# -- what is measured -----------------------------------------------------------------------------


def _open(dsn: str, schema: str) -> Ledger:
    return open_ledger("", PostgresSettings(dsn=dsn, schema=schema, wait=120, statement_timeout=120))


def _filled(dsn: str, count: int, *, done: int = 0) -> str:
    """Make a ledger with so many tasks that are ready, and so many that are done around them; return its schema."""
    schema = f"b{next(_names)}"
    ledger = _open(dsn, schema)
    ledger.file(NewTask(id="mem-0", domain="d", label=Label.internal), actor="owner", now=_NOW)
    ledger.close()
    with psycopg.connect(dsn, autocommit=True) as connection:
        fill = sql.SQL(
            "INSERT INTO {task} (id, domain, label, status, priority, fence, holder, created, updated, revision)"
            " SELECT %(prefix)s || lpad(n::text, 9, '0'), 'd', 1, %(status)s, 100, %(status)s / 2, NULL, %(now)s, %(now)s,"
            " 1 + %(status)s FROM generate_series(1, %(count)s) AS n"
        ).format(task=sql.Identifier(f"{schema}_d", "task"))
        for prefix, status, number in (("mem-1", 0, count), ("mem-0z", 2, done // 2), ("mem-2", 2, done - done // 2)):
            connection.execute(fill, {"prefix": prefix, "status": status, "count": number, "now": _NOW})
        route = sql.SQL("INSERT INTO {route} SELECT id, domain FROM {task} ON CONFLICT DO NOTHING").format(
            route=sql.Identifier(schema, "route"), task=sql.Identifier(f"{schema}_d", "task")
        )
        connection.execute(route)
        for table in ((f"{schema}_d", "task"), (schema, "route")):
            connection.execute(sql.SQL("VACUUM ANALYZE {}").format(sql.Identifier(*table)))
    return schema


def _keep(ledger: Ledger) -> None:
    (task,) = ledger.claim_next(_READABLE, holder="session:a", lease=_LEASE, now=_NOW)
    ledger.complete(task.id, fence=task.fence, actor="session:a", handoff=None, now=_NOW)


def _carry(ledger: Ledger) -> None:
    outgoing = ledger.outgoing("d")
    ledger.relayed("d", number=outgoing[-1].number, through=0)


def _raw(dsn: str, count: int) -> Any:
    connection = psycopg.connect(dsn, autocommit=True)
    connection.execute("DROP TABLE IF EXISTS raw")
    connection.execute(_TABLE)
    connection.execute(_INDEX)
    connection.execute("INSERT INTO raw SELECT n, 100, 0 FROM generate_series(1, %s) AS n", (count,))
    connection.execute("VACUUM ANALYZE raw")
    return connection


def _keep_raw(connection: Any) -> None:
    ((id,),) = connection.execute(_CLAIM, (_NOW,)).fetchall()
    connection.execute(_DONE, (id,))


# -- L2 -------------------------------------------------------------------------------------------


def _crowd(dsn: str, rounds: int) -> list[Row]:
    each, workers = 40, 16
    found: dict[str, list[tuple[float, float]]] = {"ours": [], "raw": []}
    for number in range(rounds):
        schema = _filled(dsn, workers * each)
        _raw(dsn, workers * each).close()
        works = {"ours": _worker(dsn, schema, each), "raw": _raw_worker(dsn, each)}
        for name in ("ours", "raw") if number % 2 else ("raw", "ours"):
            found[name].append(_together(works[name], each, workers))
    ours, raw = ([statistics.median(figure) for figure in zip(*found[name], strict=True)] for name in ("ours", "raw"))
    what = f"{workers} processes, each commit on the disk, beside the raw loop"
    return [
        Row("L2 postgres", f"{what}: claims and completes", ours[0], raw[0], "pairs/s", "higher"),
        Row("L2 p99", f"{what}: a claim's p99", 1e3 * ours[1], 1e3 * raw[1], "ms", "lower"),
    ]


Work = Callable[[], Iterator[float]]


def _worker(dsn: str, schema: str, each: int) -> Work:
    def work() -> Iterator[float]:
        ledger = _open(dsn, schema)
        ledger.watermark("d")
        for _ in range(each):
            begun = time.perf_counter()
            (task,) = ledger.claim_next(_READABLE, holder="session:a", lease=_LEASE, now=_NOW)
            yield time.perf_counter() - begun
            ledger.complete(task.id, fence=task.fence, actor="session:a", handoff=None, now=_NOW)
        ledger.close()

    return work


def _raw_worker(dsn: str, each: int) -> Work:
    def work() -> Iterator[float]:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for _ in range(each):
                begun = time.perf_counter()
                ((id,),) = connection.execute(_CLAIM, (_NOW,)).fetchall()
                yield time.perf_counter() - begun
                connection.execute(_DONE, (id,))

    return work


def _together(work: Work, each: int, workers: int) -> tuple[float, float]:
    """Run the work in all processes at once; return pairs a second and the p99 of a claim's seconds."""
    context = multiprocessing.get_context("fork")
    answers, start = context.SimpleQueue(), context.Barrier(workers + 1)

    def process() -> None:
        steps = work()
        # The first claim connects, and is not counted.
        next(steps)
        start.wait()
        answers.put(json.dumps(list(steps)))

    processes = [context.Process(target=process) for _ in range(workers)]
    for one in processes:
        one.start()
    start.wait()
    begun = time.perf_counter()
    claims = sorted(seconds for _ in processes for seconds in json.loads(answers.get()))
    took = time.perf_counter() - begun
    for one in processes:
        one.join()
    return workers * (each - 1) / took, claims[int(len(claims) * 0.99)]


# -- L3 and L4 ------------------------------------------------------------------------------------


def _batch(dsn: str, rounds: int) -> Row:
    calls = 10
    ledger = _open(dsn, _filled(dsn, 20 * rounds * calls))

    def claim(limit: int) -> int:
        return len(ledger.claim_next(_READABLE, holder="session:a", lease=_LEASE, now=_NOW, limit=limit))

    ten, singles = interleave(lambda: claim(10), lambda: [claim(1) for _ in range(10)], rounds=rounds, calls=calls)
    ledger.close()
    return Row(
        "L3 postgres", "claim_next(10): at least 4 times single claims", 10 / ten, 10 / singles, "tasks/s", "higher"
    )


def _alone(dsn: str, rounds: int) -> list[Row]:
    ledger = _open(dsn, _filled(dsn, 2 * rounds * _CALLS))
    raw = _raw(dsn, 2 * rounds * _CALLS)
    ours, bare = interleave(lambda: _keep(ledger), lambda: _keep_raw(raw), rounds=rounds, calls=_CALLS)
    _carry(ledger)

    def carried() -> None:
        (task,) = ledger.claim_next(_READABLE, holder="session:a", lease=_LEASE, now=_NOW)
        _carry(ledger)
        ledger.complete(task.id, fence=task.fence, actor="session:a", handoff=None, now=_NOW)
        _carry(ledger)

    whole, bare_again = interleave(carried, lambda: _keep_raw(raw), rounds=rounds, calls=_CALLS)
    ledger.close()
    raw.close()
    goal = "one worker, claim + complete beside the raw loop"
    return [
        Row("L4 postgres", f"{goal}: at least 0.7", 1 / ours, 1 / bare, "pairs/s", "higher"),
        Row("L4 carried", f"{goal}: with the outbox emptied each time", 1 / whole, 1 / bare_again, "pairs/s", "higher"),
    ]


# -- the peers ------------------------------------------------------------------------------------


def _peers(dsn: str, rounds: int) -> list[Row]:
    return [
        *(_beside_procrastinate(dsn, rounds) if procrastinate else [_unavailable("L4 procrastinate", "not installed")]),
        *(_beside_pgqueuer(dsn, rounds) if pgqueuer else [_unavailable("L4 pgqueuer", "not installed")]),
    ]


def _beside_procrastinate(dsn: str, rounds: int) -> list[Row]:
    each = 60
    asyncio.run(_defer(dsn, each * (rounds + 4 * rounds)))
    found: list[Row] = []
    for workers, least in ((1, 3), (4, 2)):
        taken: dict[str, list[float]] = {"ours": [], "theirs": []}
        for number in range(rounds):
            schema = _filled(dsn, workers * each)
            works = {
                "ours": _worker(dsn, schema, each),
                "theirs": lambda: iter(asyncio.run(_fetch(dsn, each))),
            }
            for name in ("ours", "theirs") if number % 2 else ("theirs", "ours"):
                taken[name].append(_span(works[name], workers))
        ours, theirs = (each * workers / statistics.median(taken[name]) for name in ("ours", "theirs"))
        goal = f"{workers} worker(s), claim + complete: at least {least} times procrastinate"
        found.append(Row("L4 procrastinate", goal, ours, theirs, "pairs/s", "higher"))
    return found


def _span(work: Work, workers: int) -> float:
    """Run the work in processes at once; return the seconds from the first one's start to the last one's end."""
    context = multiprocessing.get_context("fork")
    answers, start = context.SimpleQueue(), context.Barrier(workers)

    def process() -> None:
        # What is imported, and connecting, is in both; the clock starts when all are there.
        start.wait()
        begun = time.perf_counter()
        for _ in work():
            pass
        answers.put(json.dumps([begun, time.perf_counter()]))

    processes = [context.Process(target=process) for _ in range(workers)]
    for one in processes:
        one.start()
    spans = [json.loads(answers.get()) for _ in processes]
    for one in processes:
        one.join()
    return max(end for _, end in spans) - min(begin for begin, _ in spans)


async def _with_procrastinate(dsn: str, call: Callable[[Any], Awaitable[Any]]) -> Any:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn, min_size=1, max_size=1))
    async with app.open_async():
        return await call(app)


async def _defer(dsn: str, count: int) -> None:
    async def defer(app: Any) -> None:
        await app.schema_manager.apply_schema_async()
        task = app.configure_task("benchmark", allow_unknown=True)
        for _ in range(0, count, 500):
            await task.batch_defer_async(*({} for _ in range(500)))

    await _with_procrastinate(dsn, defer)


async def _fetch(dsn: str, each: int) -> list[float]:
    async def fetch(app: Any) -> list[float]:
        manager = app.job_manager
        worker = await manager.register_worker()
        for _ in range(each):
            job = await manager.fetch_job(None, worker)
            await manager.finish_job_by_id_async(job.id, Status.SUCCEEDED, delete_job=False)
        return [0.0]

    return list(await _with_procrastinate(dsn, fetch))


def _beside_pgqueuer(dsn: str, rounds: int) -> list[Row]:
    batches = 10
    with asyncio.Runner() as runner:
        connection, jobs = runner.run(_pgqueuer(dsn, 2 * rounds * batches * 10))
        ledger = _open(dsn, _filled(dsn, 2 * rounds * batches * 10))

        def claim() -> None:
            assert len(ledger.claim_next(_READABLE, holder="session:a", lease=_LEASE, now=_NOW, limit=10)) == 10

        def keep() -> None:
            for task in ledger.claim_next(_READABLE, holder="session:a", lease=_LEASE, now=_NOW, limit=10):
                ledger.complete(task.id, fence=task.fence, actor="session:a", handoff=None, now=_NOW)

        ten, their_ten = interleave(claim, lambda: runner.run(jobs(finish=False)), rounds=rounds, calls=batches)
        pair, their_pair = interleave(keep, lambda: runner.run(jobs(finish=True)), rounds=rounds, calls=batches)
        ledger.close()
        runner.run(connection.close())
    return [
        Row("L4 pgqueuer", "claim ten at a time: not behind pgqueuer", 10 / ten, 10 / their_ten, "tasks/s", "higher"),
        Row(
            "L4 pgqueuer+",
            "the same, and complete: they ten at once, we one by one",
            10 / pair,
            10 / their_pair,
            "tasks/s",
            "higher",
        ),
    ]


async def _pgqueuer(dsn: str, count: int) -> tuple[Any, Callable[..., Any]]:
    connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
    queries = pgqueuer.Queries.from_psycopg_connection(connection)
    await queries.install()
    for _ in range(0, count, 500):
        await queries.enqueue(["benchmark"] * 500, [None] * 500, [0] * 500)
    await connection.execute("ANALYZE")
    manager = uuid.uuid4()

    async def jobs(*, finish: bool) -> None:
        found = await queries.dequeue(
            10, {"benchmark": pgqueuer.EntrypointExecutionParameter(0)}, manager, None, timedelta(minutes=5)
        )
        assert len(found) == 10
        if finish:
            await queries.log_jobs([(job, "successful", None) for job in found])

    return connection, jobs


# -- L5 -------------------------------------------------------------------------------------------


def _flat(dsn: str, done: int) -> Row:
    """A claim's median with so many completed rows, beside that with a thousand."""
    calls = 200
    ledgers = [_open(dsn, _filled(dsn, 2 * calls, done=count)) for count in (max(done, 1000), 1000)]
    taken: tuple[list[float], list[float]] = ([], [])
    for _, (which, ledger) in itertools.product(range(calls), enumerate(ledgers)):
        begun = time.perf_counter()
        (task,) = ledger.claim_next(_READABLE, holder="session:a", lease=_LEASE, now=_NOW)
        taken[which].append(time.perf_counter() - begun)
        ledger.complete(task.id, fence=task.fence, actor="session:a", handoff=None, now=_NOW)
    for ledger in ledgers:
        ledger.close()
    many, few = (1e6 * statistics.median(figures) for figures in taken)
    goal = f"a claim with {done} completed rows: at most 1.25 times that with 1000"
    return Row("L5 postgres", goal, many, few, "µs", "lower")


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main()
