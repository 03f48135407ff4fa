"""``amem t0``: what a fresh session reads first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import owner, state
from amem_launcher.params import clock_options, domain_option

if TYPE_CHECKING:
    from datetime import datetime


@declare(
    "t0",
    help="Print what a fresh session reads first: open handoffs, standing decisions, pointers. It stays under"
    " 2,000 tokens and is marked as data, so that a hook may print it into a model's context.",
    examples="""
amem t0
amem t0 --domain my-project
""",
)
@domain_option("Of this domain only.")
@clock_options
@click.pass_context
def command(ctx: click.Context, domain: str | None, as_of: datetime | None, valid_at: datetime | None) -> None:
    """Read T0 as the owner."""
    from amem_launcher import output

    with state(ctx).open() as memory, owner(memory) as session:
        first = session.t0(domain=domain, as_of=as_of, valid_at=valid_at)
    if state(ctx).json:
        output.answer(first)
        return
    output.masks(first.masks)
    output.out(first.text)
