"""``amem search``: find entries by their words, summaries first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import owner, state
from amem_launcher.params import clock_options, domain_option

if TYPE_CHECKING:
    from datetime import datetime

    from amem_core.domain.queries import Hit, SearchResult


@declare(
    "search",
    help="Find entries by their words, best first. The query is text: no character in it is syntax."
    " Finding nothing is an answer (exit code 0); not being able to search is an error (1).",
    examples="""
amem search "claim lease"
amem search C++ --domain notes --type decision --limit 3
amem search release --filter 'tag in (ci, build) and created >= 2026-01-01 and tier >= curated'
amem search release --depth sections  # with the text that answers
amem search release --as-of 2026-06-30  # from what was known when that day began (UTC)
amem search -- --dry-run  # a query that begins with a dash
""",
)
@click.argument("query")
@domain_option("Search this domain only.")
@click.option("--type", "types", metavar="T", multiple=True, help="Only entries of this type.  [repeatable]")
@click.option("--filter", "filter", metavar="EXPR", help="Conditions joined by 'and': see the reference of filters.")
@click.option("--limit", metavar="N", type=int, default=10, show_default=True, help="At most so many, 1 to 100.")
@click.option(
    "--depth",
    type=click.Choice(["summaries", "sections"]),
    default="summaries",
    show_default=True,
    help="How much to show.",
)
@clock_options
@click.pass_context
def command(  # noqa: PLR0917  (click passes every option by its name)
    ctx: click.Context,
    query: str,
    domain: str | None,
    types: tuple[str, ...],
    filter: str | None,
    limit: int,
    depth: str,
    as_of: datetime | None,
    valid_at: datetime | None,
) -> None:
    """Search as the owner."""
    from amem_launcher import output

    with state(ctx).open() as memory, owner(memory) as session:
        found = session.search(
            query, domain=domain, types=types, filter=filter, limit=limit, depth=depth, as_of=as_of, valid_at=valid_at
        )
    if state(ctx).json:
        output.answer(found)
        return
    output.masks(found.masks)
    if found.hits:
        output.styled("\n\n".join(_card(rank, hit, found) for rank, hit in enumerate(found.hits, 1)))
    output.notices(found.notices)
    if not found.hits:
        output.say(f"  try: {_next(query, narrowed=bool(domain or types or filter or as_of or valid_at))}")


def _card(rank: int, hit: Hit, found: SearchResult) -> str:
    """Return one hit as a person reads it: what it is called, what it is, what it says."""
    from amem_launcher.output import line, shown, style

    facts = f"{hit.id}  {hit.updated:%Y-%m-%d}  {line(hit.type)} · {hit.label} · {hit.tier} · {hit.domain}"
    if hit.status != "active":
        facts += f" · {hit.status}"
    lines = [f"{rank}. {style(line(hit.title), 'bold')}", f"   {style(facts, 'dim')}", f"   {line(hit.summary)}"]
    section = (found.sections or {}).get(hit.id)
    if section:
        lines += ["", *(f"   {text}".rstrip() for text in shown(section).splitlines())]
    return "\n".join(lines)


def _next(query: str, *, narrowed: bool) -> str:
    """Return the command to try after a search that found nothing."""
    from shlex import quote

    words = query.split()
    if narrowed and words:
        return f"amem search {quote(query)}"
    if len(words) > 1:
        return f"amem search {quote(max(words, key=len))}"
    return "amem t0"
