"""``amem erase``: erase every version of an entry, with a receipt."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from amem_launcher.framework import Refused, owner, state
from amem_launcher.framework import command as declare
from amem_launcher.params import REASONS, id_argument

if TYPE_CHECKING:
    from amem_core.domain.results import Erased


@declare(
    "erase",
    help="Erase every version of an entry for ever and keep a stub and a receipt. What was made of its text below the"
    " root goes too, what cites it is due for review, and what it stated cannot be written again. It asks on a"
    " terminal; elsewhere it wants --yes.",
    examples="""
amem erase mem-01k... --reason requested --dry-run  # say what would go, and what cites it
amem erase mem-01k... --reason requested
amem erase mem-01k... --reason sensitive --yes
""",
)
@id_argument()
@click.option("--reason", type=click.Choice(REASONS), required=True, help="Why; it stands on the receipt.")
@click.option("--dry-run", is_flag=True, help="Erase nothing; say what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def command(ctx: click.Context, id: str, reason: str, dry_run: bool, yes: bool) -> None:  # noqa: FBT001  (click's signature)
    """Erase as the owner."""
    from amem_launcher import output

    with state(ctx).open() as memory, owner(memory) as session:
        if not yes and not dry_run:
            _ask(id)
        done = session.erase(id, reason=reason, dry_run=dry_run)
    if state(ctx).json:
        output.answer(done)
    else:
        _tell(done)
    if not done.index_clean:
        output.say("note: another process held the index, so its file may still hold the text")
        output.say(f"  hint: end the other processes, then finish it: amem erase {done.id} --reason {reason}")


def _tell(done: Erased) -> None:
    from amem_launcher import output

    would = "would be " if done.dry_run else ""
    if not done.dry_run:
        output.out(done.receipt)
    output.say(f"{would}erased {done.id}: versions {', '.join(map(str, done.versions))}")
    output.notices(f"{would}cleaned: {path}" for path in done.swept)
    output.notices(
        f"{id} cites it and {'would be' if done.dry_run else 'is'} due for review today" for id in done.flagged
    )
    output.notices(f"left, clean it yourself: {place}" for place in done.left)
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
