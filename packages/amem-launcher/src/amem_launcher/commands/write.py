"""``amem write``: write an entry, or a new version of one."""

from __future__ import annotations

from typing import Any

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import owner, state
from amem_launcher.params import LABELS, Day, Moment, domain_option, read_text


@declare(
    "write",
    help="Write an entry and print its id. With --id it is a new version of that entry; the earlier ones stay"
    " readable. The summary stands alone: it is what a search shows.",
    examples="""
amem write --domain notes --type decision --title "Use SQLite" \\
    --summary "SQLite until two machines write." --source https://example.org/why
amem write -d notes --type workflow --title Release --summary "How to release." --body-file release.md
git log -1 | amem write -d notes --type handoff --title "Where I stopped" --summary "..." --body-file -
amem write -d notes --type decision --title "Use PostgreSQL" --summary "..." --supersedes mem-01k...
""",
)
@domain_option("The domain to write to.", required=True)
@click.option("--type", "type", metavar="T", required=True, help="decision, fact, handoff, workflow, reference, ...")
@click.option("--title", metavar="T", required=True, help="The title, one line.")
@click.option("--summary", metavar="S", required=True, help="What a search shows; it stands alone.")
@click.option("--body-file", metavar="F|-", help="The body in Markdown: a file in UTF-8, or - for stdin.")
@click.option("--id", "id", metavar="ID", help="Write a new version of this entry.")
@click.option("--source", metavar="S", multiple=True, help="What a reader checks: file:, https:, mem-...  [repeatable]")
@click.option("--supersedes", metavar="ID", multiple=True, help="The entry that this one replaces.  [repeatable]")
@click.option("--derived-from", metavar="ID", multiple=True, help="An entry that this one was made from.  [repeatable]")
@click.option("--label", type=click.Choice(LABELS), help="The classification; the policy may raise it.")
@click.option("--tag", "tags", metavar="T", multiple=True, help="A tag to filter by.  [repeatable]")
@click.option("--alias", "aliases", metavar="A", multiple=True, help="Another name to find it by.  [repeatable]")
@click.option("--review-by", metavar="DATE", type=Day(), help="Past it, every answer says that it wants a review.")
@click.option("--valid-from", metavar="TIME", type=Moment(), help="From when it is true in the world.")
@click.option("--valid-until", metavar="TIME", type=Moment(), help="Until when it is true in the world.")
@click.option("--confidence", metavar="0..1", type=float, help="How sure it is.")
@click.option("--always-load", is_flag=True, help="Point to it in what a fresh session reads first.")
@click.pass_context
def command(ctx: click.Context, /, body_file: str | None, label: str | None, **fields: Any) -> None:
    """Write one draft as the owner."""
    from amem_core.domain.entries import Draft
    from amem_core.domain.labels import Label
    from amem_launcher import output

    body = "" if body_file is None else read_text(body_file, "--body-file")
    draft = Draft(body=body, label=None if label is None else Label.parse(label), **fields)
    with state(ctx).open() as memory, owner(memory) as session:
        written = session.write(draft)
    if state(ctx).json:
        output.answer(written)
        return
    output.out(written.id)
    if written.changed:
        replaced = f", supersedes {', '.join(written.superseded)}" if written.superseded else ""
        output.say(f"written: version {written.version}, {written.label}, in {written.domain}{replaced}")
    else:
        output.say(f"unchanged: the same text is there already as version {written.version}")
    output.notices(written.notices)
