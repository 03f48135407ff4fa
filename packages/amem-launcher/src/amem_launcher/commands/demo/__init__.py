"""``amem demo``: one session ends, a fresh one goes on, and every promise of the main job is shown to hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import state

if TYPE_CHECKING:
    from amem_launcher.commands.demo.play import Outcome


@declare(
    "demo",
    rootless=True,
    help="Play seven steps on a fresh root, with a real MCP client against the real server: one session writes a"
    " handoff and ends, another that never saw it goes on. PATH is a folder of Markdown; without it, ./docs, else"
    " amem's own description. The exit code is 1 when a step does not hold. Nothing is left behind.",
    examples="""
amem demo
amem demo ~/notes
amem demo docs --keep        leave the root, to look around in
amem demo docs --json
""",
)
@click.argument("path", metavar="[PATH]", required=False, type=click.Path())
@click.option("--keep", is_flag=True, help="Leave the root and say where it is.")
@click.pass_context
def command(ctx: click.Context, path: str | None, keep: bool) -> int:  # noqa: FBT001  (click's signature)
    """Play the steps and print what each of them showed."""
    import asyncio

    from amem_launcher import output
    from amem_launcher.commands.demo.material import collect
    from amem_launcher.commands.demo.play import play
    from amem_launcher.commands.demo.stage import staged

    played: list[Outcome] = []

    def tell(outcome: Outcome) -> None:
        played.append(outcome)
        if not state(ctx).json:
            output.out("\n".join(outcome.lines()))
        if outcome.problem:
            output.say(f"amem: step {outcome.number} does not hold: {outcome.problem}")
            output.say(f"  hint: {'see' if keep else 'run it with --keep and see'} server.log beside the root")

    with staged(keep=keep) as stage:
        material = collect(path, stage.home)
        output.say(f"{len(material.files)} Markdown files of {material.name}, in a fresh root: {stage.root}")
        held = asyncio.run(play(stage, material, tell))
    if state(ctx).json:
        output.answer(_document(material.name, stage.root if keep else None, played, held=held))
    if keep:
        output.say(f"kept: amem --root {stage.root} t0")
    return 0 if held else 1


def _document(material: str, root: str | None, played: list[Outcome], *, held: bool) -> dict[str, Any]:
    return {"held": held, "material": material, "root": root, "steps": played}
