"""``amem recall``: answer a question with the best entries, inside a budget of tokens."""

from __future__ import annotations

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import owner, state
from amem_launcher.params import domain_option


@declare(
    "recall",
    help="Print the text of the entries that answer a question best, inside a budget of tokens, marked as data.",
    examples="""
amem recall "how do we release?"
amem recall "who may approve?" --budget 600 --domain my-project
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
@click.pass_context
def command(ctx: click.Context, question: str, budget: int, domain: str | None, limit: int) -> None:
    """Recall as the owner."""
    from amem_launcher import output

    with state(ctx).open() as memory, owner(memory) as session:
        pack = session.recall(question, budget=budget, domain=domain, limit=limit)
    if state(ctx).json:
        output.answer(pack)
        return
    if pack.text:
        output.out(pack.text)
    output.notices(pack.notices)
    if not pack.hits:
        output.say("nothing was recalled\n  try: amem search with fewer or other words")
