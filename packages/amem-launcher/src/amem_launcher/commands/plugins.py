"""``amem plugins``: the backends and commands that are installed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from amem_launcher.framework import THIRD_PARTY, state
from amem_launcher.framework import command as declare

if TYPE_CHECKING:
    from collections.abc import Collection

    from amem_core.plugins.report import Found
    from amem_launcher.framework import State


@dataclass(frozen=True)
class Extra:
    """One command that another distribution brings; ``problem`` says why it does not answer."""

    name: str
    distribution: str
    problem: str = ""


@declare(
    "plugins",
    help="List the backends that are installed, whether they load, and the commands that other distributions"
    " bring. Nothing that amem.toml does not allow is imported.",
    examples="""
amem plugins
amem plugins --json | jq '.backends[] | select(.problem != "")'
""",
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List what is installed."""
    from amem_core.plugins.report import report
    from amem_launcher import output

    backends = report(allow=_allowed(state(ctx)))
    extras = _extras()
    if state(ctx).json:
        output.answer({"backends": backends, "commands": extras})
        return
    width = max(len(found.key) for found in backends)
    for found in backends:
        output.styled(_backend(found, width))
    for extra in extras:
        problem = f"  problem: {output.line(extra.problem)}" if extra.problem else ""
        output.styled(f"command {output.line(extra.name)}  ({output.line(extra.distribution)}){problem}")


def _allowed(chosen: State) -> Collection[str]:
    """Return what the root's configuration allows; nothing where there is no root."""
    from amem_core.config import load_config
    from amem_launcher.roots import find_root

    root = find_root(chosen.root, os.environ)
    return load_config(root).allow


def _backend(found: Found, width: int) -> str:
    from amem_launcher.output import line, style

    text = f"{found.key:<{width}}  {line(found.summary) or '-'}  ({line(found.distribution)})"
    return f"{text}  {style('problem: ' + line(found.problem), 'yellow')}" if found.problem else text


def _extras() -> list[Extra]:
    """Return the third-party commands, by name, without loading one."""
    from importlib.metadata import entry_points

    from amem_launcher.cli import TABLE

    points = sorted(entry_points(group=THIRD_PARTY), key=lambda point: point.name)
    names = [point.name for point in points]
    return [
        Extra(
            point.name,
            f"{point.dist.name} {point.dist.version}" if point.dist else point.value,
            _why_not(point.name, names, TABLE),
        )
        for point in points
    ]


def _why_not(name: str, names: list[str], ours: Collection[str]) -> str:
    if name in ours:
        return "amem's own command of that name answers"
    return "two distributions bring it" if names.count(name) > 1 else ""
