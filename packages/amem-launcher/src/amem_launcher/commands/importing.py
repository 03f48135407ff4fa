"""``amem import``: take a bundle in."""

from __future__ import annotations

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import owner, state
from amem_launcher.params import domain_option


@declare(
    "import",
    help="Check a whole bundle, then take it in at tier raw: all of it or nothing. One that was cut short goes on"
    " where it stopped when the same bundle is imported again.",
    examples="""
amem import ./bundle
amem import ./bundle --domain other
amem import ./bundle --dry-run  # check it and write nothing
""",
)
@click.argument("path", metavar="DIR", type=click.Path())
@domain_option("The domain that takes it; else the bundle's own.")
@click.option("--dry-run", is_flag=True, help="Check everything and write nothing.")
@click.pass_context
def command(ctx: click.Context, path: str, domain: str | None, dry_run: bool) -> None:  # noqa: FBT001  (click's signature)
    """Import as the owner."""
    from amem_launcher import output
    from amem_launcher.commands.export import marks
    from amem_launcher.progress import Progress

    with state(ctx).open() as memory, owner(memory) as session, Progress("entries") as progress:
        done = session.import_bundle(path, domain=domain, dry_run=dry_run, progress=progress.at)
    output.notices(done.notices)
    if state(ctx).json:
        output.answer(done)
        return
    output.out("\n".join(done.ids))
    would = "could be imported" if done.dry_run else "were imported"
    output.say(f"{len(done.ids)} entries {would} into {done.domain}, at tier raw{marks(done)}")
    if done.there_already:
        output.say(f"note: {done.there_already} of them had landed before, when the import was cut short")
