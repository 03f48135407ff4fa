"""The tables: who makes them, where a domain is, what is refused, and what is said of what is broken."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import sql

from amem_core.domain.events import Event
from amem_core.domain.labels import Label
from amem_core.domain.queries import ReadFilter
from amem_core.domain.tasks import NewTask
from amem_core.errors import ConfigError, InvalidError, NotFoundError, UnavailableError, UnknownFormatError
from amem_core.system import SystemClock
from amem_ledger.config import PostgresSettings
from amem_ledger.postgres import _schema, _statements
from amem_ledger.postgres.ledger import open_ledger
from amem_ledger.postgres.testing import PostgresRaw

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(minutes=10)
D = ReadFilter({"d": Label.restricted})


def file(ledger, id="mem-a", domain="d", **more):
    return ledger.file(NewTask(id=id, domain=domain, label=Label.internal, **more), actor="owner", now=NOW)[0]


def names(admin, schema):
    query = "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s) ORDER BY 1"
    return [name for (name,) in admin.execute(query, (schema,)).fetchall()]


def on(admin, statement, **parts):
    return admin.execute(sql.SQL(statement).format(**{name: sql.Identifier(*value) for name, value in parts.items()}))


def test_reading_makes_what_is_shared_and_a_first_change_makes_the_domains_own(ledger, admin, schema):
    assert names(admin, schema) == []
    assert (ledger.watermark("d"), ledger.outgoing("d"), ledger.tasks(D, now=NOW)) == (0, [], [])
    assert ledger.claim_next(D, holder="session:a", lease=LEASE, now=NOW) == []
    assert names(admin, schema) == [schema]
    file(ledger)
    assert names(admin, schema) == [schema, f"{schema}_d"]


@pytest.mark.parametrize(
    "domain", ["notes", "a-b_c", "x" * 64, "Ünïcode", 'a"; DROP SCHEMA public; --', "%s", "{}", "a.b", "d" * 300]
)
def test_any_domain_has_a_schema_of_its_own(make, admin, schema, domain):
    ledger = make()
    file(ledger, "mem-a", domain)
    file(ledger, "mem-b", f"{domain}x"[-60:])
    claimed = ledger.claim_next(ReadFilter({domain: Label.restricted}), holder="session:a", lease=LEASE, now=NOW)
    assert [(task.id, task.domain) for task in claimed] == [("mem-a", domain)]
    found = names(admin, schema)
    assert len(found) == 3
    assert all(len(name) <= 63 for name in found)
    assert [place.domain for place in _schema.find(admin, schema, [domain])] == [domain]
    assert make().get("mem-a", now=NOW).domain == domain


def test_schemas_of_two_domains_or_two_ledgers_are_never_the_same():
    domains = ["a", "a_b", "b", "a~b", "ab", "A", "a b", *("x" * length for length in range(50, 70))]
    places = {_schema.place_of(ledger, domain).schema for ledger in ("amem", "amema", "a") for domain in domains}
    assert len(places) == 3 * len(domains)


def test_many_who_open_a_new_ledger_at_once_make_its_tables_once(make, admin, schema):
    ledgers = [make() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda item: file(item[1], f"mem-{item[0]}", "de"[item[0] % 2]), enumerate(ledgers)))
    assert on(admin, "SELECT count(*) FROM {step}", step=(schema, "step")).fetchone() == (_schema.VERSION,)
    assert len(ledgers[0].tasks(ReadFilter({"d": Label.restricted, "e": Label.restricted}), now=NOW)) == 8


def test_a_database_that_a_newer_amem_made_is_refused_and_left_as_it_is(make, admin, schema):
    file(make())
    on(admin, "INSERT INTO {step} (number) VALUES (99)", step=(schema, "step"))
    before = dict(PostgresRaw(admin.info.dsn, schema).blobs())
    ledger = make()
    for call in (
        lambda: file(ledger, "mem-b"),
        lambda: ledger.watermark("d"),
        lambda: ledger.rebuild("d", [], through=0),
    ):
        with pytest.raises(UnknownFormatError, match=f"{schema}, has ledger format 99") as caught:
            call()
        assert "upgrade" in caught.value.hint
    assert dict(PostgresRaw(admin.info.dsn, schema).blobs()) == before


def test_a_database_in_another_encoding_is_refused(make, admin, dsn):
    admin.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    try:
        ledger = make(dsn=psycopg.conninfo.make_conninfo(dsn, dbname="latin"))
        with pytest.raises(ConfigError, match="LATIN1") as caught:
            file(ledger)
        assert "UTF8" in caught.value.hint
        ledger.close()
    finally:
        admin.execute("DROP DATABASE latin WITH (FORCE)")


def test_an_event_that_is_not_committed_yet_keeps_the_later_ones_back(make, dsn, schema):
    ledger = make()
    file(ledger, "mem-a")
    file(ledger, "mem-b")
    ledger.relayed("d", number=ledger.outgoing("d")[-1].number, through=2)
    place = _schema.place_of(schema, "d")
    values = {
        "id": "mem-a",
        "holder": "s",
        "now": NOW,
        "until": NOW + LEASE,
        "kind": "task.claimed",
        "actor": "s",
        "token": 1,
    }
    with psycopg.connect(dsn) as slow, ThreadPoolExecutor(1) as pool:
        slow.execute(_statements.statements(schema, place).claim, values)
        # A later number, committed before.
        ledger.claim("mem-b", holder="session:b", lease=LEASE, now=NOW)
        looking = pool.submit(ledger.outgoing, "d")
        with pytest.raises(TimeoutError):
            looking.result(0.3)
        slow.commit()
        outgoing = looking.result(10)
    assert [item.event.subject for item in outgoing] == ["mem-a", "mem-b"]


def test_nothing_to_claim_is_said_only_when_nobody_is_about_to_give_up_a_claim(make, dsn, schema):
    ledger = make()
    file(ledger, "mem-a")
    place = _schema.place_of(schema, "d")
    values = {
        "id": "mem-a",
        "holder": "s",
        "now": NOW,
        "until": NOW + LEASE,
        "kind": "task.claimed",
        "actor": "s",
        "token": 1,
    }
    with psycopg.connect(dsn) as other, ThreadPoolExecutor(1) as pool:
        other.execute(_statements.statements(schema, place).claim, values)
        claiming = pool.submit(ledger.claim_next, D, holder="session:a", lease=LEASE, now=NOW)
        with pytest.raises(TimeoutError):
            claiming.result(0.3)
        other.rollback()
        assert [task.id for task in claiming.result(10)] == ["mem-a"]


def test_what_is_held_for_too_long_is_an_error_that_says_so(make, dsn, schema):
    ledger = make(lock_timeout=0.2)
    file(ledger, "mem-a")
    place = _schema.place_of(schema, "d")
    with psycopg.connect(dsn) as other:
        other.execute(_statements.LOCK, (place.lock,))
        with pytest.raises(UnavailableError, match="lock_timeout") as caught:
            file(ledger, "mem-b")
    assert "pg_stat_activity" in caught.value.hint
    file(ledger, "mem-b")


def test_a_statement_that_takes_too_long_is_an_error_that_says_so(make, dsn, schema):
    ledger = make(statement_timeout=0.2)
    file(ledger, "mem-a")
    place = _schema.place_of(schema, "d")
    with psycopg.connect(dsn) as other:
        other.execute(_statements.LOCK, (place.lock,))
        with pytest.raises(UnavailableError, match="statement_timeout"):
            file(ledger, "mem-b")


def test_a_pool_that_is_used_up_is_an_error_that_says_so(make, dsn, schema):
    ledger = make(pool_max=1, wait=0.3)
    file(ledger, "mem-a")
    place = _schema.place_of(schema, "d")
    with psycopg.connect(dsn) as other, ThreadPoolExecutor(1) as pool:
        other.execute(_statements.LOCK, (place.lock,))
        waiting = pool.submit(file, ledger, "mem-b")
        while not waiting.running():
            pass
        other.execute("SELECT pg_sleep(0.1)")
        with pytest.raises(UnavailableError, match=r"no connection was free in 0\.3 s") as caught:
            ledger.get("mem-a", now=NOW)
        assert "pool_max" in caught.value.hint
        other.rollback()
        waiting.result()


def test_tables_that_were_dropped_are_named_and_made_again_from_the_log(make, admin, schema):
    ledger = make()
    file(ledger, "mem-a")
    file(ledger, "mem-e", "e")
    (filed,) = ledger.outgoing("d")
    log = [Event("d", 1, *filed.event, chain="")]
    ledger.relayed("d", number=filed.number, through=1)
    on(admin, "DROP SCHEMA {own} CASCADE", own=(f"{schema}_d",))
    with pytest.raises(UnavailableError, match="as amem made it") as caught:
        ledger.claim("mem-a", holder="session:a", lease=LEASE, now=NOW)
    assert "amem reindex" in caught.value.hint
    assert ledger.rebuild("d", log, through=1) == 1
    assert ledger.claim("mem-a", holder="session:a", lease=LEASE, now=NOW).fence == 1
    assert ledger.get("mem-e", now=NOW).domain == "e"
    on(admin, "DROP SCHEMA {own} CASCADE", own=(schema,))
    with pytest.raises(UnavailableError):
        ledger.get("mem-a", now=NOW)
    assert make().rebuild("d", log, through=1) == 1


@pytest.mark.parametrize(
    ("change", "said", "remedy"),
    [
        ({"user": "nobody"}, "refused the user", "pg_hba.conf"),
        ({"dbname": "nowhere"}, "has no such database", "CREATE DATABASE"),
        ({"port": "1"}, "cannot be reached: Connection refused", "start the server"),
    ],
)
def test_why_a_connection_is_refused_is_said_in_one_line_with_the_remedy(make, dsn, change, said, remedy):
    ledger = make(dsn=psycopg.conninfo.make_conninfo(dsn, **change))
    with pytest.raises(UnavailableError, match=said) as caught:
        ledger.watermark("d")
    assert remedy in caught.value.hint
    assert str(caught.value).count("127.0.0.1") == 1
    assert "\n" not in str(caught.value)


def test_what_a_user_may_not_do_is_told_with_the_remedy(make, admin, dsn, schema):
    file(make())
    role = f"{schema}r"
    on(admin, "CREATE ROLE {role} LOGIN", role=(role,))
    try:
        ledger = make(dsn=psycopg.conninfo.make_conninfo(dsn, user=role), schema=f"{schema[:10]}q")
        with pytest.raises(UnavailableError, match="does not allow it") as caught:
            file(ledger)
        assert "GRANT CREATE ON DATABASE" in caught.value.hint
        ledger.close()
    finally:
        on(admin, "DROP ROLE {role}", role=(role,))


def test_a_user_who_may_make_no_schema_works_in_those_that_an_administrator_made(make, admin, dsn, schema):
    role = f"{schema}r"
    on(admin, "CREATE ROLE {role} LOGIN", role=(role,))
    for name in (schema, f"{schema}_d"):
        on(admin, "CREATE SCHEMA {name} AUTHORIZATION {role}", name=(name,), role=(role,))
    ledger = make(dsn=psycopg.conninfo.make_conninfo(dsn, user=role))
    try:
        file(ledger)
        assert ledger.claim_next(D, holder="session:a", lease=LEASE, now=NOW)[0].fence == 1
        with pytest.raises(UnavailableError, match="does not allow it"):
            file(ledger, "mem-b", "e")
        states = {check.name: check.state for check in ledger.check(now=SystemClock().now())}
        assert states["ledger: permissions"] == "warning"
    finally:
        ledger.close()
        on(admin, "DROP OWNED BY {role}", role=(role,))
        on(admin, "DROP ROLE {role}", role=(role,))


def test_an_id_too_long_for_an_index_is_refused_and_nothing_is_filed(ledger):
    file(ledger)
    import secrets

    with pytest.raises(InvalidError):
        file(ledger, "mem-" + secrets.token_hex(9000))
    origin = "github:" + secrets.token_hex(900)
    first = file(ledger, "mem-b", origin=origin, upstream_event=secrets.token_hex(4000))
    assert file(ledger, "mem-c", origin=first.origin, upstream_event=first.upstream_event) == first
    assert [item.event.subject for item in ledger.outgoing("d")] == ["mem-a", "mem-b"]


def test_rows_can_be_read_and_damaged_behind_the_ledgers_back(make, admin, schema):
    ledger = make()
    file(ledger)
    raw = PostgresRaw(admin.info.dsn, schema)
    rows = dict(raw.blobs())
    assert f"{schema}_d/task/mem-a" in rows
    raw.write(f"{schema}_d/task/mem-a", rows[f"{schema}_d/task/mem-a"].replace(b'"fence": 0', b'"fence": 7'))
    assert ledger.get("mem-a", now=NOW).fence == 7
    with pytest.raises(NotFoundError):
        ledger.get("mem-b", now=NOW)


def test_a_rebuild_of_a_whole_ledger_writes_nothing_but_what_differs(make, admin, schema):
    ledger = make()
    log = []
    for number in range(20):
        file(ledger, f"mem-{number:02}")
    for item in ledger.outgoing("d"):
        log.append(Event("d", len(log) + 1, *item.event, chain=""))
    ledger.relayed("d", number=ledger.outgoing("d")[-1].number, through=20)
    places = "SELECT id, ctid::text FROM {task} ORDER BY id"
    before = on(admin, places, task=(f"{schema}_d", "task")).fetchall()
    assert ledger.rebuild("d", log, through=20) == 20
    assert on(admin, places, task=(f"{schema}_d", "task")).fetchall() == before
    on(admin, "UPDATE {task} SET fence = 9 WHERE id = 'mem-03'", task=(f"{schema}_d", "task"))
    on(admin, "DELETE FROM {task} WHERE id = 'mem-04'", task=(f"{schema}_d", "task"))
    on(admin, "DELETE FROM {route} WHERE id = 'mem-05'", route=(schema, "route"))
    ledger.rebuild("d", log, through=20)
    after = on(admin, places, task=(f"{schema}_d", "task")).fetchall()
    assert {id for (id, _) in set(after) - set(before)} == {"mem-03", "mem-04"}
    assert [make().get(f"mem-0{number}", now=NOW).fence for number in (3, 4, 5)] == [0, 0, 0]


def test_rebuilding_one_domain_lets_others_be_claimed_from(make, dsn, schema):
    ledger = make()
    file(ledger, "mem-a")
    file(ledger, "mem-e", "e")
    begun, go_on = threading.Event(), threading.Event()
    log = [Event("d", number, *item.event, chain="") for number, item in enumerate(ledger.outgoing("d"), 1)]

    def events():
        begun.set()
        go_on.wait(10)
        yield from log

    with ThreadPoolExecutor(1) as pool:
        rebuilding = pool.submit(ledger.rebuild, "d", events(), through=1)
        assert begun.wait(10)
        claimed = ledger.claim_next(
            ReadFilter({"d": Label.restricted, "e": Label.restricted}),
            holder="session:a",
            lease=LEASE,
            now=NOW,
            limit=2,
        )
        assert [task.id for task in claimed] == ["mem-a", "mem-e"]
        go_on.set()
        assert rebuilding.result(10) == 1
    assert ledger.get("mem-a", now=NOW).holder == "session:a"


def test_the_doctor_is_told_of_the_server_its_clock_and_the_tables(make, admin, schema):
    ledger = make()
    file(ledger)
    found = {check.name: check for check in ledger.check(now=SystemClock().now())}
    assert list(found) == [f"ledger: {name}" for name in ("answers", "clock", "version", "tables", "permissions")]
    assert {check.state for name, check in found.items() if name != "ledger: permissions"} == {"ok"}
    assert "round trip" in found["ledger: answers"].detail
    assert f"schema {schema}: format {_schema.VERSION}" in found["ledger: tables"].detail
    # The user of the tests may do everything, which amem does not need.
    assert "superuser" in found["ledger: permissions"].detail


@pytest.mark.parametrize(
    ("seconds", "state"), [(0, "ok"), (3, "warning"), (-3, "warning"), (60, "alarm"), (-60, "alarm")]
)
def test_a_clock_that_differs_from_the_servers_is_told(ledger, seconds, state):
    now = SystemClock().now() + timedelta(seconds=seconds)
    (clock,) = [check for check in ledger.check(now=now) if check.name == "ledger: clock"]
    assert clock.state == state
    assert ("ahead of" if seconds > 0 else "behind") in clock.detail or seconds == 0
    assert state == "ok" or "NTP" in clock.remedy


def test_the_doctor_names_domains_whose_tables_are_gone(make, admin, schema):
    ledger = make()
    file(ledger)
    on(admin, "DROP SCHEMA {own} CASCADE", own=(f"{schema}_d",))
    (tables,) = [check for check in ledger.check(now=SystemClock().now()) if check.name == "ledger: tables"]
    assert (tables.state, f"{schema}_d" in tables.detail, "reindex" in tables.remedy) == ("alarm", True, True)


def test_two_deployments_in_one_database_know_nothing_of_each_other(make, schema):
    ours, theirs = make(), make(schema=f"{schema[:12]}z")
    file(ours)
    assert theirs.tasks(D, now=NOW) == []
    assert file(theirs) == file(ours)
    theirs.close()


def test_opening_and_closing_connects_to_nothing():
    ledger = open_ledger("", PostgresSettings(dsn="postgresql://127.0.0.1:1/x", pool_min=1))
    ledger.close()
    ledger.close()
