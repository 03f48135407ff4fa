"""Whatever fails, the caller is told so in amem's words, nothing acknowledged is lost, and nothing is said to be empty."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import broken_durability
import pytest
from crashing import came_of, of, prepared_ground

from amem_conformance.faults.ground import prepared
from amem_conformance.faults.rows import Row
from amem_conformance.faults.running import Case
from amem_conformance.faults.table import as_json, as_markdown, as_text, verdict


@pytest.fixture(scope="module")
def ground():
    with prepared_ground() as prepared:
        yield prepared


def check(row):
    assert row.notes == []
    assert row.bad == 0
    assert row.found == row.acknowledged


@pytest.mark.parametrize("case", of("error"), ids=str)
def test_a_write_whose_steps_fail_is_refused_or_done_and_the_next_one_succeeds(ground, case):
    row = came_of(ground, case)
    check(row)
    assert row.refused > 0
    assert row.tried == row.absent + row.whole


@pytest.mark.parametrize("case", of("reading"), ids=str)
def test_a_reading_whose_steps_fail_answers_in_full_or_says_that_it_could_not(ground, case):
    row = came_of(ground, case)
    check(row)
    assert row.tried == row.whole + row.refused + row.wrong


@pytest.mark.parametrize("case", of("situation"), ids=str)
def test_nothing_is_lost_in_a_root_that_is_in_trouble(ground, case):
    row = came_of(ground, case)
    check(row)
    assert row.tried > 0
    assert row.subject == case.subject


# -- the table turns red ----------------------------------------------------------------------------


@pytest.fixture
def on(tmp_path, monkeypatch):
    """Tries one case on broken backends, which a distribution on the path registers."""
    monkeypatch.syspath_prepend(broken_durability.installed(tmp_path))

    def tried(case, *keys):
        with prepared(keys) as ground:
            return came_of(ground, case)

    return tried


def test_a_store_that_acknowledges_before_its_bytes_are_kept_is_seen_to_lose_them(on):
    row = on(Case("crash", "write an entry", "kill -9"), "store.late")
    assert row.lost > 0
    assert row.found < row.acknowledged


def test_a_log_that_drops_an_event_is_seen_by_what_the_record_holds(on):
    row = on(Case("crash", "write what supersedes", "exception"), "log.dropping")
    assert row.lost + row.half > 0
    assert "in no event of the log" in "".join(row.notes)


def test_an_index_that_says_it_has_followed_and_has_not_is_seen_beside_the_record(on):
    row = on(Case("crash", "write what supersedes", "kill -9"), "index.forgetful")
    assert row.lost + row.half > 0


def test_a_backend_that_catches_what_nothing_may_catch_is_seen_to_go_on(on):
    row = on(Case("crash", "write an entry", "exception"), "index.stubborn")
    assert row.lost + row.half > 0
    assert "caught by somebody" in "".join(row.notes)


@pytest.mark.parametrize("key", ["store.unsynced", "log.unsynced"])
def test_a_backend_that_does_not_wait_for_the_disk_is_seen_to_lose_what_the_power_takes(on, key):
    row = on(Case("power", "write an entry", "power loss"), key)
    assert row.lost > 0


def test_a_store_that_takes_what_it_cannot_read_for_nothing_is_seen_to_answer_wrongly(on):
    row = on(Case("reading", "get", "EIO"), "store.blind")
    assert row.wrong > 0
    assert "NotFoundError" in "".join(row.notes)


# -- the command ------------------------------------------------------------------------------------


def command(*arguments, path=()):
    """Run ``amem-conformance faults`` as its own process."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, *(entry for entry in sys.path if entry)])}
    return subprocess.run(
        [sys.executable, "-m", "amem_conformance.cli", "faults", *arguments],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_prints_the_table_and_exits_0_when_every_promise_held():
    done = command("--quick", "--json", "--only", "crash: claim a task, exception")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["format"] == "amem-conformance/faults/1"
    assert document["backends"]["store"] == "store.files"
    assert document["totals"]["lost"] == document["totals"]["half"] == document["totals"]["wrong"] == 0
    assert [row["subject"] for row in document["rows"]] == ["claim a task"]
    assert "1 of 1: crash: claim a task, exception" in done.stderr


def test_the_command_exits_1_when_a_strangers_backend_loses_something(tmp_path):
    path = [broken_durability.installed(tmp_path)]
    done = command("store.late", "--quick", "--only", "crash: write an entry, kill -9", path=path)
    assert done.returncode == 1, done.stderr
    told, found = map(int, re.findall(r"(\d+) writes acknowledged, (\d+) of them found", done.stdout)[0])
    assert told > found
    assert "write an entry, kill -9: before step" in done.stdout


def test_the_command_names_its_cases_and_refuses_what_it_does_not_know():
    named = command("--list").stdout.splitlines()
    assert "crash: write an entry, kill -9" in named
    assert "situation: two writers in one domain" in named
    for wrong in (["--only", "nothing of the kind"], ["tools.memory"], ["store.memory"], ["store.absent"]):
        done = command(*wrong)
        assert done.returncode == 2
        assert wrong[-1] in done.stderr
        assert "Traceback" not in done.stderr


ROWS = [
    Row("crash", "write", "kill -9", tried=4, acknowledged=2, found=1, absent=1, whole=2, lost=1, notes=["gone"]),
    Row("reading", "search", "EIO", tried=3, whole=1, refused=2),
]


def test_the_table_says_how_many_writes_were_acknowledged_and_how_many_found():
    assert verdict(ROWS).startswith("7 points: 2 writes acknowledged, 1 of them found; 1 lost")
    text = as_text(ROWS)
    assert "gone" in text
    heads, row = text.splitlines()[1:3]
    assert heads.split() == ["tried", "acknowledged", "found", "absent", "whole", "lost", "half"]
    assert row.split()[-7:] == ["4", "2", "1", "1", "2", "1", "0"]
    assert "| write | kill -9 | 4 | 2 | 1 | 1 | 2 | 1 | 0 |" in as_markdown(ROWS)
    assert json.loads(as_json(ROWS, {"store": "store.files"}, quick=True))["rows"][0]["notes"] == ["gone"]
