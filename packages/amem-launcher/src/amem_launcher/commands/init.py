"""``amem init``: make a root and add a domain to it."""

from __future__ import annotations

import os

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import state
from amem_launcher.params import LABELS, domain_option


@declare(
    "init",
    help="Make the root a root if it is none, and add a domain to it. Doing it again changes nothing.",
    examples="""
amem init --domain notes  # in the nearest .amem above here, else in ~/.amem
amem --root .amem init --domain my-project  # a root of this directory's own
amem init --domain clients --label confidential
""",
)
@domain_option("The domain to add.", required=True)
@click.option(
    "--label", type=click.Choice(LABELS), help="The default label of what is written there.  [default: internal]"
)
@click.pass_context
def command(ctx: click.Context, domain: str, label: str | None) -> None:
    """Make the root and say where it is."""
    from amem_core.domain.labels import Label
    from amem_core.memory import Memory
    from amem_launcher import output
    from amem_launcher.roots import find_root

    root = find_root(state(ctx).root, os.environ)
    added = Memory.init(root, domain=domain, label=None if label is None else Label.parse(label))
    if state(ctx).json:
        output.answer({"root": root, "domain": domain, "added": added})
        return
    output.out(root)
    if added:
        output.say(
            f"added the domain {domain}; write to it: amem write --domain {domain} --type fact --title T --summary S"
        )
    else:
        output.say(f"the domain {domain} was there already; nothing was changed")
