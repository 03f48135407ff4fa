"""A task's life as pure functions: what a transition makes, its event makes again."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amem_core.domain import task_events as life
from amem_core.domain.events import Event
from amem_core.domain.labels import Label
from amem_core.domain.tasks import NewTask, TaskStatus
from amem_core.errors import CorruptionError, InvalidError

TIMES = st.timedeltas(timedelta(0), timedelta(days=3_200_000)).map(lambda since: datetime(1, 1, 2, tzinfo=UTC) + since)
LEASES = st.timedeltas(timedelta(microseconds=1), timedelta(days=1000))
LABELS = st.sampled_from(list(Label))
HANDOFFS = st.none() | st.just("mem-h")
FILINGS = st.builds(
    NewTask,
    id=st.just("mem-a"),
    domain=st.just("d"),
    label=LABELS,
    priority=st.integers(-(2**63), 2**63 - 1),
    origin=st.none() | st.just("github:o/r#1"),
    upstream_event=st.none() | st.just("opened"),
)


@st.composite
def steps(draw, task, now):
    """Draw one transition that ``task`` can take at ``now``: its kind and the task after it."""
    kinds = [life.RELABELLED]
    kinds += [life.CLAIMED] if task.status is TaskStatus.ready else []
    if task.status is TaskStatus.claimed:
        kinds += [life.CLAIMED, life.RENEWED, life.REBASED, life.COMPLETED, life.RELEASED]
    kind = draw(st.sampled_from(kinds))
    if kind == life.RELABELLED:
        return kind, life.relabel_task(task, label=draw(LABELS), now=now)
    if kind == life.COMPLETED:
        return kind, life.complete_task(task, handoff=draw(HANDOFFS), now=now)
    if kind == life.RELEASED:
        return kind, life.release_task(task, handoff=draw(HANDOFFS), now=now)
    until = life.lease_end(now, draw(LEASES))
    if kind == life.CLAIMED:
        return kind, life.claim_task(
            task, holder=draw(st.sampled_from(["session:a", "session:b"])), until=until, now=now
        )
    return kind, life.renew_task(task, until=until, now=now)


def logged(event, seq):
    """Return the event as it comes out of a log: its data have been JSON."""
    return Event("d", seq, event.kind, event.subject, event.actor, event.time, json.loads(json.dumps(event.data)), "")


@given(filing=FILINGS, now=TIMES, data=st.data())
def test_replaying_a_tasks_events_makes_the_task(filing, now, data):
    task = life.file_task(filing, now=now)
    again = life.apply_event(None, logged(life.event_of(life.FILED, task, actor="owner"), 1))
    assert again == task
    for seq in range(2, 2 + data.draw(st.integers(0, 12))):
        kind, task = data.draw(steps(task, data.draw(TIMES)))
        again = life.apply_event(again, logged(life.event_of(kind, task, actor="session:a"), seq))
        assert again == task


@given(time=TIMES, minutes=st.integers(-600, 600))
def test_a_time_as_text_is_exact_and_sorts_as_time_does(time, minutes):
    text = life.time_text(time)
    assert (len(text), text[-1], datetime.fromisoformat(text)) == (27, "Z", time)
    assert (life.time_text(time + timedelta(microseconds=1)) > text) is True
    if time.year > 1:
        assert life.time_text(time.astimezone(timezone(timedelta(minutes=minutes)))) == text


def test_a_time_without_a_zone_or_outside_the_calendar_is_refused():
    for time in (
        datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))),
    ):
        with pytest.raises(InvalidError) as caught:
            life.time_text(time)
        assert caught.value.hint


def test_a_first_event_that_files_nothing_is_refused():
    task = life.file_task(NewTask(id="mem-a", domain="d", label=Label.public), now=datetime(2026, 1, 1, tzinfo=UTC))
    claimed = life.claim_task(task, holder="session:a", until=task.created + timedelta(1), now=task.created)
    event = logged(life.event_of(life.CLAIMED, claimed, actor="session:a"), 7)
    with pytest.raises(CorruptionError, match=r"event 7 of the domain d.*task\.claimed.*mem-a.*never filed") as caught:
        life.apply_event(None, event)
    assert "amem reindex" in caught.value.hint


def test_an_event_of_another_domain_is_refused():
    task = life.file_task(NewTask(id="mem-a", domain="e", label=Label.public), now=datetime(2026, 1, 1, tzinfo=UTC))
    event = logged(
        life.event_of(life.RELABELLED, life.relabel_task(task, label=Label.public, now=task.created), actor="owner"), 2
    )
    with pytest.raises(CorruptionError, match="domain e"):
        life.apply_event(task, event)


def test_a_lease_event_without_a_lease_is_not_made():
    task = life.file_task(NewTask(id="mem-a", domain="d", label=Label.public), now=datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(CorruptionError):
        life.event_of(life.CLAIMED, task, actor="owner")
