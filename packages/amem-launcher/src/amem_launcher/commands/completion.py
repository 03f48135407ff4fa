"""``amem completion``: a script that completes commands in a shell."""

from __future__ import annotations

import click

from amem_launcher.framework import command as declare


@declare(
    "completion",
    rootless=True,
    wordy=True,
    help="Print a script that completes amem's commands, options, domains and ids in a shell.",
    examples="""
eval "$(amem completion bash)"  # in ~/.bashrc
eval "$(amem completion zsh)"  # in ~/.zshrc
amem completion fish > ~/.config/fish/completions/amem.fish
""",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print click's own script for the shell."""
    from click.shell_completion import get_completion_class

    from amem_launcher import output
    from amem_launcher.cli import cli

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click completes nothing in {shell}")
    output.styled(kind(cli, {}, "amem", "_AMEM_COMPLETE").source())
