"""``amem reject``: take a value out of use, so that nothing states it again."""

from __future__ import annotations

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import owner, state
from amem_launcher.params import id_argument


@declare(
    "reject",
    help="Take the value that an entry states out of use. The entry is served no more, and a later write, import or"
    " ingest of the same value is refused with the reason, however it is spelled, spaced or cased. What is derived"
    " from it, or states it too, is due for review. amem lift takes a rejection back.",
    examples="""
amem reject mem-01k... --reason "measured on the staging box, not in production"
""",
)
@id_argument()
@click.option("--reason", metavar="TEXT", required=True, help="Why it does not hold; whoever states it again is told.")
@click.pass_context
def command(ctx: click.Context, id: str, reason: str) -> None:
    """Reject as the owner."""
    from amem_launcher import output

    with state(ctx).open() as memory, owner(memory) as session:
        done = session.reject(id, reason=reason)
    if state(ctx).json:
        output.answer(done)
        return
    output.out(done.id)
    output.say(f"rejected {done.id}: {done.reason}")
    output.say(f"  to take that back: amem lift {done.id} --reason …")
    output.notices(
        f"{flagged} is derived from it or states it too, and is due for review today" for flagged in done.flagged
    )
    output.notices(done.notices)
