"""``amem export``: write a domain's entries into a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import owner, state
from amem_launcher.params import LABELS, domain_option

if TYPE_CHECKING:
    from amem_core.domain.results import Exported, Imported


@declare(
    "export",
    help="Write a domain's current entries into a bundle: a new or empty directory with a manifest of digests."
    " What was erased, which values were rejected and what was promoted go with them, as marks.",
    examples="""
amem export --domain my-project --to ./bundle
amem export --domain my-project --to ./bundle --max-label internal  # leave out what stands higher
""",
)
@domain_option("The domain to export.", required=True)
@click.option("--to", metavar="DIR", required=True, type=click.Path(), help="A new or empty directory.")
@click.option("--max-label", type=click.Choice(LABELS), help="The highest label that may leave.")
@click.pass_context
def command(ctx: click.Context, domain: str, to: str, max_label: str | None) -> None:
    """Export as the owner."""
    from amem_core.domain.labels import Label
    from amem_launcher import output
    from amem_launcher.progress import Progress

    label = None if max_label is None else Label.parse(max_label)
    with state(ctx).open() as memory, owner(memory) as session, Progress("entries") as progress:
        done = session.export(domain, to, max_label=label, progress=progress.at)
    output.notices(done.notices)
    if state(ctx).json:
        output.answer(done)
        return
    output.out(done.path)
    output.say(f"exported {done.entries} entries of {done.domain}, up to {done.highest_label}{marks(done)}")
    if done.withheld or done.withheld_marks:
        output.say(
            f"note: {done.withheld} entries and {done.withheld_marks} marks stand above {done.max_label}"
            " and were left out"
        )


def marks(done: Exported | Imported) -> str:
    """Return how many marks of which kinds travelled, as the end of a sentence."""
    counts = {"receipts": done.receipts, "tombstones": done.tombstones, "promotions": done.promotions}
    told = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    return f", with {told}" if told else ""
