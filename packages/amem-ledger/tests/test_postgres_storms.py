"""Connections that are killed, a server that is stopped and started again: no claim is lost, none is doubled."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import traceback
from collections import Counter
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from amem_core.domain.labels import Label
from amem_core.domain.queries import ReadFilter
from amem_core.domain.tasks import NewTask, TaskStatus
from amem_core.errors import UnavailableError
from amem_ledger.config import PostgresSettings
from amem_ledger.postgres.ledger import open_ledger

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(minutes=10)
ALL = ReadFilter({"d": Label.restricted, "e": Label.restricted})
WORKERS = 16
TASKS = 160


def filed(ledger, count=TASKS):
    for number in range(count):
        task = NewTask(id=f"mem-{number:04}", domain="de"[number % 2], label=Label.internal)
        ledger.file(task, actor="owner", now=NOW)


def insisted(call):
    """Make a call that may be made any number of times, until it is answered."""
    while True:
        try:
            return call()
        except UnavailableError:
            continue


def held_by(ledger, holder):
    """Return what the ledger says that the holder has."""
    tasks = insisted(lambda: ledger.tasks(ALL, now=NOW, statuses=[TaskStatus.claimed], limit=TASKS))
    return [task for task in tasks if task.holder == holder]


def work(dsn, schema, holder, readable):
    """Claim until nothing is left, completing each; return the claims, as they are known to their holder."""
    ledger = open_ledger("", PostgresSettings(dsn=f"{dsn}?application_name=storm", schema=schema, pool_max=2))
    claims = []
    try:
        while True:
            try:
                tasks = ledger.claim_next(readable, holder=holder, lease=LEASE, now=NOW)
            except UnavailableError:
                # Twice in one call: whether it was made is not known, and the ledger tells.
                tasks = held_by(ledger, holder)
            else:
                if not tasks:
                    return claims
            for task in tasks:
                claims.append((task.id, task.fence))
                complete(ledger, task, holder)
    finally:
        ledger.close()


def complete(ledger, task, holder):
    while insisted(lambda: ledger.get(task.id, now=NOW)).status is not TaskStatus.completed:
        with contextlib.suppress(UnavailableError):
            ledger.complete(task.id, fence=task.fence, actor=holder, handoff=None, now=NOW)


def in_processes(target, count):
    """Run ``target(number)`` in so many processes; return what each returns, as JSON."""
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def answer(number):
        try:
            answers.put(json.dumps(target(number)))
        except BaseException:
            answers.put(json.dumps({"failed": traceback.format_exc()}))
            raise

    processes = [context.Process(target=answer, args=(number,)) for number in range(count)]
    for process in processes:
        process.start()
    found = [json.loads(answers.get()) for _ in processes]
    for process in processes:
        process.join(60)
    failed = [each["failed"] for each in found if isinstance(each, dict)]
    assert not failed, failed[0]
    return found


def assert_each_claimed_once(ledger, answers):
    given = Counter((id, fence) for claims in answers for id, fence in claims)
    lost = [task for task in ledger.tasks(ALL, now=NOW, limit=2 * TASKS) if (task.id, 1) not in given]
    assert lost == []
    assert given == Counter((f"mem-{number:04}", 1) for number in range(TASKS))
    tasks = ledger.tasks(ALL, now=NOW, limit=2 * TASKS)
    assert {(task.status, task.fence, task.revision) for task in tasks} == {(TaskStatus.completed, 1, 3)}
    events = [item.event for domain in "de" for item in ledger.outgoing(domain, limit=10 * TASKS)]
    told = Counter((event.subject, event.data["revision"]) for event in events)
    assert told == Counter((f"mem-{number:04}", revision) for number in range(TASKS) for revision in (1, 2, 3))


@pytest.mark.parametrize("domains", [["d", "e"], ["d"]])
def test_sixteen_processes_lose_and_double_no_claim_while_connections_are_killed(make, dsn, schema, killing, domains):
    ledger = make()
    filed(ledger)
    readable = ReadFilter(dict.fromkeys(domains, Label.restricted))
    other = ReadFilter({"e": Label.restricted})
    with killing("storm"):
        answers = in_processes(
            lambda number: work(dsn, schema, f"session:{number}", readable if number % 2 or "e" in domains else other),
            WORKERS,
        )
    assert_each_claimed_once(ledger, answers)


def test_events_go_out_once_and_in_order_while_claims_go_on_and_connections_are_killed(make, dsn, schema, killing):
    ledger = make()
    filed(ledger)
    carrier = make(dsn=f"{dsn}?application_name=storm")
    context = multiprocessing.get_context("fork")
    done = [context.Process(target=work, args=(dsn, schema, f"session:{number}", ALL)) for number in range(4)]
    for process in done:
        process.start()
    logged = {"d": [], "e": []}
    with killing("storm", seconds=0.1):
        while any(process.is_alive() for process in done):
            for domain, log in logged.items():
                carry(carrier, domain, log)
    for process in done:
        process.join()
    for domain, log in logged.items():
        carry(ledger, domain, log)
        told = {}
        for event in log:
            told.setdefault(event.subject, []).append(event.data["revision"])
        assert set(map(tuple, told.values())) == {(1, 2, 3)}
        assert (len(told), ledger.outgoing(domain)) == (TASKS // 2, [])


def carry(ledger, domain, log):
    """Carry the outbox to the list, as its only writer; what an error leaves open the next round finds."""
    try:
        outgoing = ledger.outgoing(domain, limit=50)
        new = [item for item in outgoing if (item.event.subject, item.event.data["revision"]) not in keys(log)]
        log.extend(item.event for item in new)
        if outgoing:
            ledger.relayed(domain, number=outgoing[-1].number, through=len(log))
            if len(outgoing) == 50:
                carry(ledger, domain, log)
    except UnavailableError:
        return


def keys(log):
    return {(event.subject, event.data["revision"]) for event in log}


def end_during(monkeypatch, ledger, admin, *, made):
    """Let the ledger's next change lose its connection, before it is made or after."""
    real = psycopg.Connection.execute
    state = {"armed": True}

    def execute(connection, query, *arguments, **more):
        text = query if isinstance(query, bytes) else b""
        if state["armed"] and b"changed AS" in text:
            state["armed"] = False
            pid = connection.info.backend_pid
            if made:
                real(connection, query, *arguments, **more)
            admin.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
            return real(connection, "SELECT 1")
        return real(connection, query, *arguments, **more)

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    return state


CALLS = {
    "file": lambda ledger: ledger.file(NewTask(id="mem-x", domain="d", label=Label.public), actor="owner", now=NOW)[1],
    "claim_next": lambda ledger: [
        task.fence for task in ledger.claim_next(ALL, holder="session:a", lease=LEASE, now=NOW)
    ],
    "claim": lambda ledger: ledger.claim("mem-0003", holder="session:a", lease=LEASE, now=NOW).fence,
    "heartbeat": lambda ledger: ledger.heartbeat("mem-0000", fence=1, lease=2 * LEASE, now=NOW).revision,
    "complete": lambda ledger: ledger.complete("mem-0000", fence=1, actor="o", handoff=None, now=NOW).revision,
    "release": lambda ledger: ledger.release("mem-0000", fence=1, actor="o", handoff=None, now=NOW).revision,
    "relabel": lambda ledger: ledger.relabel("mem-0002", label=Label.public, actor="o", now=NOW).revision,
}
ANSWERS = {"file": True, "claim_next": [1], "claim": 1, "heartbeat": 3, "complete": 3, "release": 3, "relabel": 2}


@pytest.mark.parametrize("made", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", CALLS)
def test_a_change_whose_connection_is_lost_is_made_once_and_answered(ledger, admin, monkeypatch, name, made):
    filed(ledger, 6)
    ledger.claim("mem-0000", holder="session:b", lease=LEASE, now=NOW)
    before = sum(len(ledger.outgoing(domain)) for domain in "de")
    state = end_during(monkeypatch, ledger, admin, made=made)
    answer = CALLS[name](ledger)
    assert state == {"armed": False}
    assert answer == ANSWERS[name]
    assert sum(len(ledger.outgoing(domain)) for domain in "de") == before + 1


def test_connections_that_were_ended_while_nobody_used_them_are_not_noticed(ledger, admin):
    filed(ledger, 2)
    pids = admin.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'amem'").fetchall()
    for (pid,) in pids:
        admin.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    assert ledger.claim_next(ALL, holder="session:a", lease=LEASE, now=NOW)[0].id == "mem-0000"


def test_a_stopped_server_is_an_error_at_once_and_a_started_one_goes_on(lone, lone_dsn, schema):
    ledger = open_ledger("", PostgresSettings(dsn=lone_dsn, schema=schema))
    filed(ledger, 4)
    held = ledger.claim_next(ALL, holder="session:a", lease=LEASE, now=NOW)
    lone.stop()
    for _ in range(3):
        with pytest.raises(UnavailableError, match=f"PostgreSQL at 127.0.0.1:{lone.port}, database postgres") as caught:
            ledger.claim_next(ALL, holder="session:a", lease=LEASE, now=NOW)
        assert caught.value.hint
    lone.start()
    assert ledger.get("mem-0000", now=NOW) == held[0]
    assert ledger.claim_next(ALL, holder="session:b", lease=LEASE, now=NOW)[0].id == "mem-0001"
    ledger.complete("mem-0000", fence=1, actor="session:a", handoff=None, now=NOW)
    assert [item.event.kind for item in ledger.outgoing("d")] == ["task.filed"] * 2 + ["task.claimed", "task.completed"]
    ledger.close()


def test_a_crashed_server_comes_back_with_what_was_acknowledged(lone, lone_dsn, schema):
    ledger = open_ledger("", PostgresSettings(dsn=lone_dsn, schema=schema))
    filed(ledger, 4)
    with psycopg.connect(lone_dsn, autocommit=True) as connection:
        # The server of the tests does not wait for the disk: what it has is written now.
        connection.execute("CHECKPOINT")
    lone.stop(signal.SIGKILL)
    lone.start()
    assert [task.id for task in ledger.tasks(ALL, now=NOW)] == [f"mem-000{number}" for number in range(4)]
    ledger.close()


def test_a_ledger_that_was_opened_before_a_fork_is_refused_in_the_child(ledger):
    filed(ledger, 1)

    def ask():
        try:
            ledger.get("mem-0000", now=NOW)
        except UnavailableError as error:
            return str(error)
        return "answered"

    assert "forked" in in_processes(lambda _: ask(), 1)[0]
    assert ledger.get("mem-0000", now=NOW).fence == 0
    assert os.getpid()
