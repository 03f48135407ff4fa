"""``amem fsck``: lay record, log, index and ledger beside each other, and repair what can be."""

from __future__ import annotations

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import owner, state
from amem_launcher.params import domain_option

_ALARM = 3


@declare(
    "fsck",
    help="Check record, log, index and ledger against each other: orphans, links that lead nowhere, broken files,"
    " digests that differ, what is due for review, sources that changed. An alarm gives exit code 3, a warning 0. It"
    " changes nothing without --repair, which completes and rebuilds and never deletes.",
    examples="""
amem fsck
amem fsck --domain my-project
amem fsck --repair
amem fsck --json | jq -r '.findings[] | select(.state == "alarm") | .id'
""",
)
@domain_option("This domain only; else all.")
@click.option("--repair", is_flag=True, help="Complete what was cut short and rebuild what is derived.")
@click.pass_context
def command(ctx: click.Context, domain: str | None, repair: bool) -> int:  # noqa: FBT001  (click's signature)
    """Check as the owner."""
    from amem_launcher import output
    from amem_launcher.progress import Progress

    with state(ctx).open() as memory, owner(memory) as session, Progress("looked at") as progress:
        done = session.fsck(domain=domain, repair=repair, progress=progress.at)
    if state(ctx).json:
        output.answer(done)
    else:
        for one in done.domains:
            counts = f"{one.entries} entries, {one.versions} versions, {one.events} events, {one.tasks} tasks"
            output.out(f"{one.domain}: {counts}")
        output.findings(done.findings)
        alarms = sum(finding.state == "alarm" for finding in done.findings)
        output.say(f"{alarms} alarms, {len(done.findings) - alarms} warnings")
    output.notices(f"repaired {what}" for what in done.repaired)
    return _ALARM if done.state == "alarm" else 0
