"""How the commands are put together: loaded when called, with the same options, help and state.

click's own group imports every command to print its help, and its formatter imports what it needs to
ask for a terminal's width; both cost more than the command itself.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from click.shell_completion import CompletionItem

    from amem_core.memory import Memory
    from amem_core.session import Session

_NARROWEST, _WIDEST, _USUAL = 50, 100, 80
THIRD_PARTY = "amem.commands"


class Listed(NamedTuple):
    """One command of the table: its module in ``amem_launcher.commands``, the section and line of its help."""

    module: str
    section: str
    help: str


class Refused(click.UsageError):
    """Wrong words on the command line, with what to do next."""

    def __init__(self, message: str, *, hint: str = "", ctx: click.Context | None = None) -> None:
        super().__init__(message, ctx)
        self.hint = hint


class State:
    """What the options that every command has were set to."""

    __slots__ = ("debug", "json", "root")

    def __init__(self) -> None:
        self.root: str | None = None
        self.json = False
        self.debug = False

    def open(self) -> Memory:
        """Open the memory of the root that was named or found."""
        from amem_core.memory import Memory
        from amem_launcher.roots import find_root

        return Memory.open(find_root(self.root, os.environ), environ=os.environ)


class Formatter(click.HelpFormatter):
    """Help as wide as the terminal, asked for without ``shutil``."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        super().__init__(indent_increment, width or min(terminal_width(), max_width or _WIDEST) - 2, max_width)


def terminal_width() -> int:
    """Return how wide the terminal is, 80 where there is none."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated):
        return max(_NARROWEST, int(stated))
    try:
        return max(_NARROWEST, os.get_terminal_size(sys.stdout.fileno()).columns)
    except (OSError, ValueError, AttributeError):
        return _USUAL


class Context(click.Context):
    """A context whose help is formatted by ``Formatter``."""

    formatter_class = Formatter


def state(ctx: click.Context) -> State:
    """Return the state that all contexts of one call share."""
    return ctx.ensure_object(State)


def _root_given(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        state(ctx).root = value


def _json_wanted(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001  (click's signature)
    state(ctx).json |= value


def _debug_wanted(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001  (click's signature)
    state(ctx).debug |= value


def _directories(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


def root_option() -> click.Option:
    """Return ``--root``, which stands before the command or behind it."""
    return click.Option(
        ["--root"],
        metavar="DIR",
        help="The root; else AMEM_ROOT, else the nearest .amem above here, else ~/.amem.",
        callback=_root_given,
        expose_value=False,
        # click.Path would translate its name, which loads the machine's locale for every command.
        shell_complete=_directories,
    )


def debug_option() -> click.Option:
    """Return ``--debug``."""
    return click.Option(
        ["--debug"], is_flag=True, help="Print a traceback with an error.", callback=_debug_wanted, expose_value=False
    )


def json_option() -> click.Option:
    """Return ``--json``."""
    return click.Option(
        ["--json"], is_flag=True, help="Print one JSON document.", callback=_json_wanted, expose_value=False
    )


def _help_wanted(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001  (click's signature)
    if value and not ctx.resilient_parsing:
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class _PlainHelp(click.Command):
    """Has a ``--help`` of its own: click's is translated, which loads the machine's locale for every command."""

    _plain_help: click.Option | None = None

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the same option each time: click tells parameters apart by identity."""
        if self._plain_help is None:
            self._plain_help = click.Option(
                self.get_help_option_names(ctx),
                is_flag=True,
                is_eager=True,
                expose_value=False,
                help="Show this message and exit.",
                callback=_help_wanted,
            )
        return self._plain_help


class Command(_PlainHelp):
    """A command with the options that all have, and examples in its help.

    ``examples`` are lines printed as they stand. ``rootless`` commands take no ``--root``.
    """

    context_class = Context

    def __init__(
        self,
        name: str | None,
        *,
        examples: str = "",
        rootless: bool = False,
        wordy: bool = False,
        params: Sequence[click.Parameter] | None = None,
        **settings: Any,
    ) -> None:
        common = [debug_option()] if rootless else [root_option(), debug_option()]
        if not wordy:
            common.insert(0, json_option())
        super().__init__(name, params=[*(params or ()), *common], **settings)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the examples as they stand."""
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples.strip().splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def command(
    name: str, *, examples: str = "", rootless: bool = False, wordy: bool = False, **settings: Any
) -> Callable[[Callable[..., int | None]], Command]:
    """Return a decorator that makes a command of a function; the function returns the exit code, or None for 0."""

    def decorate(function: Callable[..., int | None]) -> Command:
        return click.command(name, cls=Command, examples=examples, rootless=rootless, wordy=wordy, **settings)(function)

    return decorate


class Group(_PlainHelp, click.Group):
    """A group whose help needs an argument: called with none it is a usage error that prints its help."""

    context_class = Context
    command_class = Command

    def __init__(self, *args: Any, **settings: Any) -> None:
        settings.setdefault("no_args_is_help", False)
        super().__init__(*args, **settings)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse an empty command line with the help."""
        if not args and not ctx.resilient_parsing:
            from amem_launcher.output import say

            say(ctx.get_help())
            raise Refused("a command is missing", hint=f"choose one of these: {ctx.command_path} COMMAND", ctx=ctx)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or say which one was probably meant."""
        found = self.get_command(ctx, args[0])
        if found is not None:
            return args[0], found, args[1:]
        if ctx.resilient_parsing:
            return None, None, args[1:]
        from difflib import get_close_matches

        near = get_close_matches(args[0], self.list_commands(ctx), n=1)
        hint = f"did you mean: {ctx.command_path} {near[0]}" if near else f"see: {ctx.command_path} --help"
        raise Refused(f"there is no command {args[0]!r}", hint=hint, ctx=ctx)


class LazyGroup(Group):
    """A group with a table of its commands; a module is imported when its command is called."""

    def __init__(self, *args: Any, table: Mapping[str, Listed], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Return our own commands, in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return a command of ours; else look for a third party's by its entry point."""
        listed = self.table.get(cmd_name)
        if listed is None:
            return _third_party(cmd_name)
        module = import_module(f"amem_launcher.commands.{listed.module}")
        found: click.Command = module.command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Print the table by sections; import nothing."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, listed in self.table.items():
            sections.setdefault(listed.section, []).append((name, listed.help))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of the table; import no command for it."""
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=listed.help) for name, listed in self.table.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


def _third_party(name: str) -> click.Command | None:
    """Return a command that another distribution brings, or None.

    Raises:
        PluginError: two bring it, or the one that does cannot be loaded.
    """
    if name.startswith("-"):
        return None
    from importlib.metadata import entry_points

    found = list(entry_points(group=THIRD_PARTY, name=name))
    if not found:
        return None
    homes = sorted(point.dist.name if point.dist else point.value for point in found)
    if len(found) > 1:
        from amem_core.errors import PluginConflictError

        message = f"{len(found)} installed distributions bring a command {name!r}: {', '.join(homes)}"
        raise PluginConflictError(message, hint="uninstall all but one")
    from amem_core.errors import PluginLoadError

    hint = f"upgrade or uninstall {homes[0]}"
    try:
        loaded = found[0].load()
    except Exception as error:  # a stranger's module may raise anything; it becomes one named error
        message = f"the command {name!r} of {homes[0]} does not load: {type(error).__name__}: {error}"
        raise PluginLoadError(message, hint=hint) from error
    if not isinstance(loaded, click.Command):
        message = f"the command {name!r} of {homes[0]} is no click command but a {type(loaded).__name__}"
        raise PluginLoadError(message, hint=hint)
    return loaded


def owner(memory: Memory) -> Session:
    """Open the session of the person at the command line."""
    return memory.session(author="owner")
