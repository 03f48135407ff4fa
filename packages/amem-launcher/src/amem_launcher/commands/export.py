"""``amem export``: write a domain's entries into a bundle."""

from __future__ import annotations

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import owner, state
from amem_launcher.params import LABELS, domain_option


@declare(
    "export",
    help="Write a domain's current entries into a bundle: a new or empty directory with a manifest of digests.",
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

    with state(ctx).open() as memory, owner(memory) as session:
        done = session.export(domain, to, max_label=None if max_label is None else Label.parse(max_label))
    if state(ctx).json:
        output.answer(done)
        return
    output.out(done.path)
    output.say(f"exported {done.entries} entries of {done.domain}, up to {done.highest_label}")
    if done.withheld:
        output.say(f"note: {done.withheld} entries stand above {done.max_label} and were left out")
