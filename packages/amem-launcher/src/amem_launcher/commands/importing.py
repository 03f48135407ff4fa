"""``amem import``: take a bundle in."""

from __future__ import annotations

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import owner, state
from amem_launcher.params import domain_option


@declare(
    "import",
    help="Check a whole bundle, then take it in at tier raw: all of it or nothing.",
    examples="""
amem import ./bundle
amem import ./bundle --domain other
""",
)
@click.argument("path", metavar="DIR", type=click.Path())
@domain_option("The domain that takes it; else the bundle's own.")
@click.pass_context
def command(ctx: click.Context, path: str, domain: str | None) -> None:
    """Import as the owner."""
    from amem_launcher import output

    with state(ctx).open() as memory, owner(memory) as session:
        done = session.import_bundle(path, domain=domain)
    if state(ctx).json:
        output.answer(done)
        return
    output.out("\n".join(done.ids))
    output.say(f"imported {len(done.ids)} entries into {done.domain}, at tier raw")
