"""``amem doctor``: check everything; change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import state

if TYPE_CHECKING:
    from amem_core.domain.results import Check
    from amem_launcher.framework import State

_ALARM = 3


@declare(
    "doctor",
    help="Check configuration, backends, record, index, ledger and log, and change nothing. An alarm gives exit"
    " code 3, a warning 0.",
    examples="""
amem doctor
amem doctor --json | jq '.checks[] | select(.state != "ok")'
""",
)
@click.pass_context
def command(ctx: click.Context) -> int:
    """Print every finding, the worst last."""
    from amem_launcher import output

    checks = _checks(state(ctx))
    alarms = sum(check.state == "alarm" for check in checks)
    if state(ctx).json:
        output.answer({"state": _worst(checks), "checks": checks})
    else:
        output.styled("\n".join(_line(check) for check in checks))
        warnings = sum(check.state == "warning" for check in checks)
        output.say(f"{len(checks)} checks: {alarms} alarms, {warnings} warnings")
    return _ALARM if alarms else 0


def _checks(chosen: State) -> list[Check]:
    """Return what core finds; a configuration that does not even open is an alarm of its own."""
    from amem_core.domain.results import Check
    from amem_core.errors import AmemError, NotFoundError

    try:
        with chosen.open() as memory:
            return memory.doctor()
    except NotFoundError:
        raise
    except AmemError as error:
        return [Check(name="configuration", state="alarm", detail=str(error), remedy=error.hint)]


def _worst(checks: list[Check]) -> str:
    states = {check.state for check in checks}
    return next((state for state in ("alarm", "warning") if state in states), "ok")


def _line(check: Check) -> str:
    from amem_launcher.output import line, style

    colour = {"ok": "green", "warning": "yellow"}.get(check.state, "red")
    text = f"{style(f'{check.state:<7}', colour)}  {line(check.name)}: {line(check.detail)}"
    return f"{text}\n         remedy: {line(check.remedy)}" if check.remedy and check.state != "ok" else text
