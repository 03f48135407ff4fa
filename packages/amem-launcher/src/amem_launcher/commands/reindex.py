"""``amem reindex``: rebuild index and ledger from the record and the log."""

from __future__ import annotations

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import owner, state
from amem_launcher.params import domain_option


@declare(
    "reindex",
    help="Rebuild the index and the ledger from the record and the log alone, and take in what was made or changed by"
    " hand. A file that cannot be read as an entry is reported and left as it is.",
    examples="""
amem reindex
amem reindex --domain my-project
""",
)
@domain_option("This domain only; else all.")
@click.pass_context
def command(ctx: click.Context, domain: str | None) -> None:
    """Reindex as the owner."""
    from amem_launcher import output
    from amem_launcher.progress import Progress

    with state(ctx).open() as memory, owner(memory) as session, Progress("entries") as progress:
        rebuilt = session.reindex(domain=domain, progress=progress.at)
    if state(ctx).json:
        output.answer({"domains": rebuilt})
    else:
        for one in rebuilt:
            output.out(f"{one.domain}: {one.entries} entries, {one.versions} versions, {one.tasks} tasks")
    for one in rebuilt:
        output.notices(f"{id} was made or changed by hand; it is the owner's now" for id in one.edited_by_hand)
        output.broken(one.broken)
