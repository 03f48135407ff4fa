"""``amem recall``: answer a question with the best entries, inside a budget of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import owner, state
from amem_launcher.params import clock_options, domain_option

if TYPE_CHECKING:
    from datetime import datetime


@declare(
    "recall",
    help="Print the text of the entries that answer a question best, inside a budget of tokens, marked as data.",
    examples="""
amem recall "how do we release?"
amem recall "who may approve?" --budget 600 --domain my-project
amem recall "who may approve?" --as-of 2026-06-30  # what would have been recalled when that day began (UTC)
""",
)
@click.argument("question")
@click.option(
    "--budget", metavar="TOKENS", type=int, default=1500, show_default=True, help="At most so many, 100 to 100,000."
)
@domain_option("Ask this domain only.")
@click.option(
    "--limit", metavar="N", type=int, default=20, show_default=True, help="Look at so many entries, 1 to 100."
)
@clock_options
@click.pass_context
def command(  # noqa: PLR0917  (click passes every option by its name)
    ctx: click.Context,
    question: str,
    budget: int,
    domain: str | None,
    limit: int,
    as_of: datetime | None,
    valid_at: datetime | None,
) -> None:
    """Recall as the owner."""
    from amem_launcher import output

    with state(ctx).open() as memory, owner(memory) as session:
        pack = session.recall(question, budget=budget, domain=domain, limit=limit, as_of=as_of, valid_at=valid_at)
    if state(ctx).json:
        output.answer(pack)
        return
    output.masks(pack.masks)
    if pack.text:
        output.out(pack.text)
    output.notices(pack.notices)
    if not pack.hits:
        output.say("nothing was recalled\n  try: amem search with fewer or other words")
