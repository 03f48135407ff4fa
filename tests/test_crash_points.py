"""Every step of every write, stopped: what was acknowledged is there with its bytes, all else is whole or absent."""

from __future__ import annotations

import pytest
from crashing import came_of, of, prepared_ground

from amem_conformance.faults.crashing import CRASH, KILL

# There before and after alike, or finished by the next look: such a write is never seen absent.
NEVER_ABSENT = {"reindex", "take in a hand edit", "ingest a folder", "ingest a folder again"}


@pytest.fixture(scope="module")
def ground():
    with prepared_ground() as prepared:
        yield prepared


def check(row):
    assert row.notes == []
    assert row.bad == 0
    assert row.found == row.acknowledged > 0
    assert row.whole > row.acknowledged or row.subject == "export a bundle"
    assert (row.absent > 0) == (row.subject not in NEVER_ABSENT)


@pytest.mark.parametrize("case", of("crash", KILL), ids=str)
def test_what_is_killed_at_any_step_is_whole_or_absent_and_there_when_it_was_acknowledged(ground, case):
    row = came_of(ground, case)
    check(row)
    assert row.tried > 20


@pytest.mark.parametrize("case", of("crash", CRASH), ids=str)
def test_a_process_goes_on_after_an_exception_at_any_step_as_another_would(ground, case):
    check(came_of(ground, case))


@pytest.mark.parametrize("case", of("power"), ids=str)
def test_whatever_a_disk_may_hold_after_a_power_loss_what_was_acknowledged_is_there(ground, case):
    row = came_of(ground, case)
    assert row.notes == []
    assert row.bad == 0
    assert row.found == row.acknowledged > 0
