"""``amem ingest``: make entries of Markdown files."""

from __future__ import annotations

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import owner, state
from amem_launcher.params import domain_option


@declare(
    "ingest",
    help="Make entries of Markdown files and trees, a section each. Run again, it writes what has changed and"
    " nothing else. A file that cannot be read is reported and stops no other; the exit code is then 1.",
    examples="""
amem ingest docs/ README.md --domain my-project
amem ingest docs/ --domain my-project --dry-run  # say what would be done
""",
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@domain_option("The domain that takes the entries.", required=True)
@click.option("--dry-run", is_flag=True, help="Write nothing; say what would be written.")
@click.pass_context
def command(ctx: click.Context, paths: tuple[str, ...], domain: str, dry_run: bool) -> int:  # noqa: FBT001  (click's signature)
    """Ingest as the owner."""
    from amem_launcher import output
    from amem_launcher.progress import Progress

    with state(ctx).open() as memory, owner(memory) as session, Progress("files") as progress:
        done = session.ingest(paths, domain=domain, dry_run=dry_run, progress=progress.of)
    if state(ctx).json:
        output.answer(done)
    else:
        would = "would be " if done.dry_run else ""
        output.out(
            f"files: {done.files}; sections {would}written {done.written}, changed {done.changed},"
            f" archived {done.archived}; unchanged {done.unchanged}"
        )
    output.broken(done.broken)
    output.notices(f"{refused.path} was left out: {refused.reason}" for refused in done.refused)
    return 1 if done.broken else 0
