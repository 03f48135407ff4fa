"""``amem lift``: take a rejection back."""

from __future__ import annotations

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import owner, state
from amem_launcher.params import id_argument


@declare(
    "lift",
    help="Take a rejection back: the entry is what it was before, and its value may be stated again. Of an erased"
    " entry, what it stated may be written again; its text does not come back.",
    examples="""
amem lift mem-01k... --reason "production was moved to that port in June"
""",
)
@id_argument()
@click.option("--reason", metavar="TEXT", required=True, help="Why the value may be stated again.")
@click.pass_context
def command(ctx: click.Context, id: str, reason: str) -> None:
    """Lift as the owner."""
    from amem_launcher import output

    with state(ctx).open() as memory, owner(memory) as session:
        done = session.lift(id, reason=reason)
    if state(ctx).json:
        output.answer(done)
        return
    output.out(done.id)
    output.say(f"lifted {done.id}: it is {done.status}, and what it states may be written again")
    output.notices(done.notices)
