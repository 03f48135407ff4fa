"""What a call costs, in counts: trips to the server, transactions that write, the plan, and connections."""

from __future__ import annotations

import socket
import socketserver
import threading
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from amem_core.domain.events import Event
from amem_core.domain.labels import Label
from amem_core.domain.queries import ReadFilter
from amem_core.domain.tasks import NewTask
from amem_ledger.postgres import _connections, _schema, _statements

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(minutes=10)
D = ReadFilter({"d": Label.restricted})
BOTH = ReadFilter({"d": Label.restricted, "e": Label.public})


class Proxy(socketserver.ThreadingTCPServer):
    """Passes bytes on, and counts how often the server says that it is ready for more: once a trip."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, server):
        super().__init__(("127.0.0.1", 0), Passing)
        self.server = server
        self.trips = 0


class Passing(socketserver.BaseRequestHandler):
    def handle(self):
        with socket.create_connection(self.server.server) as there:
            thread = threading.Thread(target=self.back, args=(there,), daemon=True)
            thread.start()
            while data := self.request.recv(65536):
                there.sendall(data)
            there.shutdown(socket.SHUT_WR)
            thread.join()

    def back(self, there):
        pending = b""
        while data := there.recv(65536):
            pending += data
            while len(pending) >= 5 and len(pending) >= (size := 1 + int.from_bytes(pending[1:5])):
                self.server.trips += pending[:1] == b"Z"
                pending = pending[size:]
            self.request.sendall(data)


@pytest.fixture
def dsn(lone_dsn):
    """A server of its own, which does nothing by itself: the transactions of others would be counted too."""
    with psycopg.connect(lone_dsn, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET autovacuum = off")
        connection.execute("SELECT pg_reload_conf()")
    return lone_dsn


@pytest.fixture
def proxy(dsn):
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    with Proxy((parts["host"], int(parts["port"]))) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        yield proxy
        proxy.shutdown()
        thread.join()


@pytest.fixture
def near(proxy, make, dsn):
    """A ledger behind the proxy that has been used, so that it knows where things are."""
    plain = {"sslmode": "disable", "gssencmode": "disable"}
    ledger = make(dsn=psycopg.conninfo.make_conninfo(dsn, port=proxy.server_address[1], **plain))
    for number in range(60):
        task = NewTask(id=f"mem-{number:02}", domain="d", label=Label.internal)
        ledger.file(task, actor="owner", now=NOW)
    ledger.file(NewTask(id="mem-e", domain="e", label=Label.public), actor="owner", now=NOW)
    ledger.tasks(BOTH, now=NOW)
    return ledger


def cost(proxy, admin, call):
    """Return the trips of a call, and how many transactions that write it took."""
    query = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
    before, trips = admin.execute(query).fetchone()[0], proxy.trips
    call()
    return proxy.trips - trips, admin.execute(query).fetchone()[0] - before


def test_each_change_is_one_trip_and_one_commit(near, proxy, admin):
    new = NewTask(id="mem-x", domain="d", label=Label.internal)
    admin.execute("SELECT pg_stat_force_next_flush()") if admin.info.server_version >= 150000 else None
    for name, call in [
        ("file", lambda: near.file(new, actor="owner", now=NOW)),
        ("claim_next", lambda: near.claim_next(D, holder="session:a", lease=LEASE, now=NOW)),
        ("claim_next of ten", lambda: near.claim_next(D, holder="session:a", lease=LEASE, now=NOW, limit=10)),
        ("claim", lambda: near.claim("mem-40", holder="session:a", lease=LEASE, now=NOW)),
        ("heartbeat", lambda: near.heartbeat("mem-40", fence=1, lease=LEASE, now=NOW)),
        ("relabel", lambda: near.relabel("mem-40", label=Label.public, actor="owner", now=NOW)),
        ("complete", lambda: near.complete("mem-40", fence=1, actor="session:a", handoff=None, now=NOW)),
        ("release", lambda: near.release("mem-00", fence=1, actor="session:a", handoff=None, now=NOW)),
        ("relayed", lambda: near.relayed("d", number=5, through=5)),
        ("nothing but entries followed", lambda: near.apply("d", [], through=9)),
    ]:
        assert (name, *cost(proxy, admin, call)) == (name, 1, 1)


def test_reading_is_one_trip_and_writes_nothing(near, proxy, admin):
    for name, call in [
        ("get", lambda: near.get("mem-00", now=NOW)),
        ("tasks", lambda: near.tasks(BOTH, now=NOW)),
        ("outgoing", lambda: near.outgoing("d")),
        ("watermark", lambda: near.watermark("d")),
    ]:
        assert (name, *cost(proxy, admin, call)) == (name, 1, 0)


def test_a_claim_from_several_domains_is_one_commit_and_one_trip_more(near, proxy, admin):
    assert cost(proxy, admin, lambda: near.claim_next(BOTH, holder="session:a", lease=LEASE, now=NOW)) == (2, 1)


def test_nothing_to_claim_is_two_trips_and_writes_nothing(near, proxy, admin):
    near.claim_next(D, holder="session:a", lease=LEASE, now=NOW, limit=100)
    assert cost(proxy, admin, lambda: near.claim_next(D, holder="session:b", lease=LEASE, now=NOW)) == (2, 0)


def test_a_task_that_is_filed_in_the_log_is_followed_in_one_commit_and_two_trips(near, proxy, admin):
    filed = near.outgoing("d")[0].event
    log = [Event("d", 1, *filed._replace(subject="mem-n"), chain="")]
    trips, commits = cost(proxy, admin, lambda: near.apply("d", log, through=1))
    assert (trips, commits) == (2, 1)


def test_a_ledger_that_is_opened_for_one_call_makes_one_connection(proxy, make, dsn, near):
    near.close()
    opened = make(dsn=psycopg.conninfo.make_conninfo(dsn, port=proxy.server_address[1], sslmode="disable"))
    before = proxy.trips
    opened.claim_next(D, holder="session:a", lease=LEASE, now=NOW)
    # Logging in, the session's settings, the version of the tables, where the domain is, the claim.
    assert proxy.trips - before == 5


@pytest.mark.parametrize("domains", [D, BOTH], ids=["one domain", "several"])
def test_a_claim_follows_the_index_of_what_is_ready_whatever_is_completed(near, admin, schema, domains):
    admin.execute(
        psycopg.sql.SQL(
            "INSERT INTO {task} (id, domain, label, status, priority, fence, created, updated, revision)"
            " SELECT 'mem-0x' || n, 'd', 1, 2, 100, 1, %(now)s, %(now)s, 3 FROM generate_series(1, 20000) AS n"
        ).format(task=psycopg.sql.Identifier(f"{schema}_d", "task")),
        {"now": NOW},
    )
    admin.execute(_connections._CONFIGURE, ("0", "0", "0"))
    for analysed in (False, True):
        if analysed:
            admin.execute(psycopg.sql.SQL("ANALYZE {}").format(psycopg.sql.Identifier(f"{schema}_d", "task")))
        place = _schema.place_of(schema, "d")
        values = {"label": 3, "holder": "s", "now": NOW, "until": NOW + LEASE, "kind": "task.claimed", "token": 1}
        statement = _statements.claim_next(schema, place, 1, wait=False)
        if domains is BOTH:
            values |= {"names": ["d", "e"], "domains3": ["d"], "domains0": ["e"]}
            statement = _statements.claim_from_many(schema, (0, 3), 1, wait=False)
        with admin.transaction(force_rollback=True):
            plan = "\n".join(row[0] for row in admin.execute(b"EXPLAIN (ANALYZE, BUFFERS) " + statement, values))
            after = admin.execute("SELECT 1").fetchone()
        assert after == (1,)
        assert "Seq Scan on" not in plan
        assert "rows=20000" not in plan


def test_what_is_asked_by_id_is_found_by_id_however_few_are_claimed(near, admin, schema):
    own = _statements.statements(schema, _schema.place_of(schema, "d"))
    values = {
        "id": "mem-00",
        "now": NOW,
        "until": NOW,
        "kind": "k",
        "actor": "s",
        "holder": "s",
        "token": 1,
        "fence": 1,
    }
    values |= {"label": 1, "handoff": None}
    admin.execute(_connections._CONFIGURE, ("0", "0", "0"))
    for statement in (own.claim, own.renew, own.complete, own.release, own.relabel, own.by_id):
        plan = "\n".join(row[0] for row in admin.execute(b"EXPLAIN " + statement, values))
        assert "Index Scan using task_pkey" in plan
