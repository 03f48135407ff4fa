"""``amem verify``: record that somebody has checked an entry against something outside."""

from __future__ import annotations

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import owner, state
from amem_launcher.params import ORACLES, id_argument


@declare(
    "verify",
    help="Record that an entry was checked, against what and by whom, and make it verified. Nobody verifies what they"
    " wrote themselves, and no agent verifies on its own authority. Each verification is kept; a changed text starts"
    " again with none.",
    examples="""
amem verify mem-01k... --oracle ci --evidence "run 4412 is green on 3.11" --by "release pipeline"
amem verify mem-01k... --oracle human --evidence "ruled in the review of 3 June" --by "the lead of the team"
""",
)
@id_argument()
@click.option("--oracle", type=click.Choice(ORACLES), required=True, help="What it was checked against.")
@click.option("--evidence", metavar="TEXT", required=True, help="What was seen there.")
@click.option("--by", metavar="WHO", required=True, help="Who stands behind it.")
@click.pass_context
def command(ctx: click.Context, id: str, oracle: str, evidence: str, by: str) -> None:
    """Verify as the owner."""
    from amem_launcher import output

    with state(ctx).open() as memory, owner(memory) as session:
        done = session.verify(id, oracle=oracle, evidence=evidence, by=by)
    if state(ctx).json:
        output.answer(done)
        return
    output.out(done.id)
    output.say(f"verified {done.id} by {done.by} ({done.oracle}); verifications by now: {done.verifications}")
    output.notices(done.notices)
