"""What a backend finds of the service behind it is among the doctor's findings."""

from __future__ import annotations

from amem_core.domain.results import Check
from amem_core.errors import UnavailableError


def test_a_backend_that_offers_to_look_is_asked_with_the_time_and_its_findings_stand_behind_it(
    memory, clock, monkeypatch
):
    asked = []

    def check(self, *, now):
        asked.append(now)
        return [Check(name="ledger: clock", state="warning", detail="2 s behind", remedy="NTP")]

    monkeypatch.setattr(type(memory.runtime.ledger), "check", check, raising=False)
    names = [found.name for found in memory.doctor()]
    assert names[names.index("ledger opens") + 1] == "ledger: clock"
    assert asked == [clock.now()]


def test_a_service_that_is_away_is_an_alarm_with_its_reason_and_remedy(memory, monkeypatch):
    def check(self, *, now):
        message = "the database is away"
        raise UnavailableError(message, hint="start it")

    monkeypatch.setattr(type(memory.runtime.ledger), "check", check, raising=False)
    (found,) = [found for found in memory.doctor() if found.name == "ledger answers"]
    assert (found.state, found.detail, found.remedy) == ("alarm", "the database is away", "start it")
