"""Step 5: a task, its lease, and who may write to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_core.memory import Memory
from amem_core.system import SystemClock
from amem_core.testing import FrozenClock
from amem_launcher.commands.demo.agent import agent
from amem_launcher.commands.demo.evidence import Promised
from amem_launcher.commands.demo.stage import hold

if TYPE_CHECKING:
    from amem_launcher.commands.demo.agent import Agent
    from amem_launcher.commands.demo.stage import Stage

_LEASE = 300
_SHORT_LEASE = 60


async def promise(stage: Stage, two: Agent) -> Promised:
    """Keep a promise against a rival process, then lose a lease and be refused."""
    filed = await two.do("create_task", title="Sum up what was read", summary="One page that a newcomer can use.")
    task = filed.data["id"]
    claimed = await two.do("claim", id=task, lease_seconds=_LEASE)
    fence = claimed.data["fence"]
    async with agent(stage) as rival:
        refused = await rival.refused("claim", "conflict", id=task)
        hold(claimed.data["holder"] in refused, "the refusal of a second claim does not name the holder")
        ready = await rival.do("claim_next")
        hold(not ready.data["tasks"], "claim_next gave out a task that is held")
    renewed = await two.do("heartbeat", id=task, fence=fence, lease_seconds=2 * _LEASE)
    hold(renewed.data["lease_until"] > claimed.data["lease_until"], "a heartbeat did not renew the lease")
    done = await two.do("complete", id=task, fence=fence, result="It is summed up in one page.")
    hold(done.data["status"] == "completed", f"a completed task is {done.data['status']}")
    kept = await two.do("get", id=done.data["handoff"])
    hold("It is summed up in one page." in kept.text, "the result is not kept")
    await two.refused("complete", "conflict", id=task, fence=fence)
    returned, old, new, stale = await _lose(stage, two)
    return Promised(
        task=task,
        holder=claimed.data["holder"],
        fence=fence,
        lease_until=claimed.data["lease_until"],
        renewed_until=renewed.data["lease_until"],
        refused=refused,
        result=done.data["handoff"],
        returned=returned,
        old_fence=old,
        new_fence=new,
        stale=stale,
    )


async def _lose(stage: Stage, two: Agent) -> tuple[str, int, int, tuple[str, ...]]:
    """Let a lease run out and another session take the task; return the task, both fences and the refusals.

    The other session's clock is set forward: nobody waits.
    """
    filed = await two.do("create_task", title="Check the links", summary="Every link of what was read resolves.")
    task = filed.data["id"]
    old = (await two.do("claim", id=task, lease_seconds=_SHORT_LEASE)).data["fence"]
    clock = FrozenClock(SystemClock().now())
    with Memory.open(stage.root, clock=clock) as memory, memory.session() as three:
        held = three.task(task).task
        hold(held.status == "claimed", f"the task is {held.status} while its lease lasts")
        clock.advance(seconds=_SHORT_LEASE + 1)
        hold(three.task(task).task.status == "ready", "an expired lease did not return the task")
        new = three.claim_next()[0].task
        hold(new.id == task, "claim_next did not give out the task whose lease had expired")
        hold(new.fence > old, f"the fence did not grow: {old} before, {new.fence} after")
        stale = (
            await two.refused("heartbeat", "conflict", id=task, fence=old),
            await two.refused("complete", "conflict", id=task, fence=old, result="Too late."),
            await two.refused("release", "conflict", id=task, fence=old, note="Too late."),
        )
        found = three.search("Too late").hits
        hold(not found, "what the session without the lease wrote was kept")
        done = three.complete(task, fence=new.fence)
        hold(done.status == "completed", "the new holder could not complete the task")
    return task, old, new.fence, stale
