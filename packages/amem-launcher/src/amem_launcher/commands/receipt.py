"""``amem receipt``: the accounts of erasures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from amem_launcher.framework import Group, owner, state
from amem_launcher.framework import command as declare
from amem_launcher.params import domain_option, id_argument

if TYPE_CHECKING:
    from amem_core.domain.results import Receipt

ALARM = 3


@declare(
    "show",
    help="Print the receipt of an erasure and check it against the hash chain of the log: the digest of what it said when"
    " the erasure began stands in the log's event. The exit code is 3 when the two do not agree.",
    examples="""
amem receipt show mem-01k...
amem receipt show mem-01k... --json | jq -r .versions[].digest
""",
)
@id_argument()
@click.pass_context
def show(ctx: click.Context, id: str) -> int:
    """Show one as the owner."""
    from amem_launcher import output

    with state(ctx).open() as memory, owner(memory) as session:
        found = session.receipt(id)
    if state(ctx).json:
        output.answer(found)
    else:
        output.styled(_whole(found))
    if found.problem:
        output.say(f"alarm: {found.problem}")
        output.say("  hint: restore receipt and log from a copy of the same time; amem log verify checks the log")
        return ALARM
    return 0


@declare(
    "list",
    help="List the receipts of a domain, or of all: when, why and what was erased.",
    examples="""
amem receipt list
amem receipt list --domain my-project --json
""",
)
@domain_option("Of this domain only.")
@click.pass_context
def list_receipts(ctx: click.Context, domain: str | None) -> int:
    """List as the owner."""
    from amem_launcher import output

    with state(ctx).open() as memory, owner(memory) as session:
        found = session.receipts(domain=domain)
    if state(ctx).json:
        output.answer({"receipts": found})
    else:
        for receipt in found:
            unfinished = "" if receipt.finished else "  unfinished: erase it again"
            output.out(f"{receipt.time}  {receipt.domain}  {receipt.id}  {receipt.reason}{unfinished}")
    wrong = [receipt for receipt in found if receipt.problem]
    for receipt in wrong:
        output.say(f"alarm: {receipt.id}: {receipt.problem}")
    return ALARM if wrong else 0


command = Group("receipt", help="Show the accounts of erasures.")
for one in (show, list_receipts):
    command.add_command(one)


def _whole(found: Receipt) -> str:
    from amem_launcher.output import line, style

    lines = [
        style(f"{found.id}: {found.reason}", "bold"),
        f"erased {found.time} by {line(found.by)}, in {found.domain}",
        *(f"version {item['version']}  {item['digest']}" for item in found.versions),
        *(f"refused from now on  {key}" for key in found.values),
        *(f"due for review  {id}" for id in found.flagged),
        *(f"cleaned  {line(path)}" for path in found.swept),
        *(f"left  {line(place)}" for place in found.left),
        *(f"out of reach  {line(place)}" for place in found.out_of_reach),
    ]
    if found.lifted:
        lines.append(
            f"lifted {found.lifted.get('when')} by {line(str(found.lifted.get('by')))}: its values may be stated"
        )
    if found.origin:
        lines.append(f"it came with a bundle from {line(found.origin)}, so that the log here has no event of it")
    elif found.seq is not None:
        lines.append(f"event {found.seq} of the log  chain {found.chain}")
        lines.append(f"which holds it to  {found.core}")
    if not found.finished:
        lines.append("the erasure has not finished: erase it again")
    return "\n".join(lines)
