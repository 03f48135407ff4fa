"""``amem erase``: erase every version of an entry, with a receipt."""

from __future__ import annotations

import sys

import click

from amem_launcher.framework import Refused, owner, state
from amem_launcher.framework import command as declare
from amem_launcher.params import REASONS, id_argument


@declare(
    "erase",
    help="Erase every version of an entry for ever and keep a stub and a receipt. It asks on a terminal;"
    " elsewhere it wants --yes.",
    examples="""
amem erase mem-01k... --reason requested
amem erase mem-01k... --reason sensitive --yes
""",
)
@id_argument()
@click.option("--reason", type=click.Choice(REASONS), required=True, help="Why; it stands on the receipt.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def command(ctx: click.Context, id: str, reason: str, yes: bool) -> None:  # noqa: FBT001  (click's signature)
    """Erase as the owner."""
    from amem_launcher import output

    with state(ctx).open() as memory, owner(memory) as session:
        if not yes:
            _ask(id)
        done = session.erase(id, reason=reason)
    if state(ctx).json:
        output.answer(done)
    else:
        output.out(done.receipt)
        output.say(f"erased {done.id}: versions {', '.join(map(str, done.versions))}; the receipt is {done.receipt}")
    if not done.index_clean:
        output.say("note: another process held the index, so its file may still hold the text")
        output.say("  hint: end the other processes, then run: amem reindex")
    output.notices(f"out of reach, erase it there yourself: {place}" for place in done.out_of_reach)


def _ask(id: str) -> None:
    """Ask on the terminal whether it is meant.

    Raises:
        Refused: there is no terminal to ask on.
        Abort: the answer is not yes.
    """
    if not sys.stdin.isatty():
        message = f"erasing {id} cannot be undone, and there is no terminal to ask on"
        raise Refused(message, hint="add --yes if it is meant")
    sys.stderr.write(f"Erase every version of {id} for ever? Type yes: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise click.Abort
