"""``amem log``: check the event log, and rebuild from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from amem_launcher.framework import Group, owner, state
from amem_launcher.framework import command as declare
from amem_launcher.params import domain_option

if TYPE_CHECKING:
    from amem_core.domain.results import LogVerified, Materialized

ALARM = 3


@declare(
    "verify",
    help="Check the event log of each domain: its sequence, its hash chain, and the digests that it names against the"
    " record. An alarm says where the first break is and gives exit code 3. A torn last line, as a crash leaves it,"
    " is no alarm. Changes nothing.",
    examples="""
amem log verify
amem log verify --domain my-project --json
""",
)
@domain_option("This domain only; else all.")
@click.pass_context
def verify(ctx: click.Context, domain: str | None) -> int:
    """Verify as the owner."""
    from amem_launcher import output
    from amem_launcher.progress import Progress

    with state(ctx).open() as memory, owner(memory) as session, Progress("looked at") as progress:
        verified = session.verify_log(domain=domain, progress=progress.at)
    if state(ctx).json:
        output.answer({"domains": verified})
    else:
        for one in verified:
            output.styled(_summary(one))
    for one in verified:
        output.findings(one.findings)
    return ALARM if any(one.state == "alarm" for one in verified) else 0


@declare(
    "materialize",
    help="Rebuild the index and the ledger from the log and the record, as amem reindex does, and report by id where"
    " the two differ. What was made or changed by hand is taken in as a version by the owner. Where the log is damaged"
    " nothing is taken in, and the exit code is 3.",
    examples="""
amem log materialize
amem log materialize --domain my-project --json
""",
)
@domain_option("This domain only; else all.")
@click.pass_context
def materialize(ctx: click.Context, domain: str | None) -> int:
    """Materialize as the owner."""
    from amem_launcher import output
    from amem_launcher.progress import Progress

    with state(ctx).open() as memory, owner(memory) as session, Progress("entries") as progress:
        rebuilt = session.materialize(domain=domain, progress=progress.at)
    if state(ctx).json:
        output.answer({"domains": rebuilt})
    else:
        for one in rebuilt:
            output.out(f"{one.domain}: {one.entries} entries, {one.versions} versions, {one.tasks} tasks")
    for one in rebuilt:
        _report(one)
    return ALARM if any(one.damage is not None for one in rebuilt) else 0


command = Group("log", help="Check the event log, and rebuild what follows from it.")
for each in (verify, materialize):
    command.add_command(each)


def _summary(one: LogVerified) -> str:
    from amem_launcher.output import line, style

    colour = {"ok": "green", "warning": "yellow"}.get(one.state, "red")
    where = ""
    if one.breach is not None:
        place = f"line {one.breach.line}, " if one.breach.line is not None else ""
        where = f", first break at {place}event {one.breach.seq}"
    counts = f"{one.events} events, {one.compared} versions compared{where}"
    return f"{style(f'{one.state:<7}', colour)}  {line(one.domain)}: {counts}, last chain {one.chain}"


def _report(one: Materialized) -> None:
    from amem_launcher import output

    output.notices(
        f"{each.id} was made or changed by hand; it is version {each.version} now, by the owner"
        for each in one.adopted
        if each.version != each.stated
    )
    output.notices(
        f"{each.id} was made by hand; it is served as it is, as version {each.version}"
        for each in one.adopted
        if each.version == each.stated
    )
    output.notices(f"{each.id}: {notice}" for each in one.adopted for notice in each.notices)
    output.notices(
        f"{each.id} is held at version {each.held}, and the log names version {each.logged}: restore it from a newer copy"
        for each in one.displaced
    )
    output.notices(f"{id} is named by the log and has no file: restore it from a copy" for id in one.missing)
    output.broken((*one.refused, *one.broken))
    if one.damage is not None:
        output.say(f"alarm: the log of {one.domain} is damaged: {output.line(one.damage)}")
        output.say("  hint: nothing was taken in, and the ledger is as it was; restore the log from a copy")
