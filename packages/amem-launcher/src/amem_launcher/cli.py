"""``amem``: the table of commands, and what becomes of an error.

Nothing but click is imported here, so that ``amem --help`` costs what click costs. Exit codes: 0 done,
1 refused, not found or unavailable, 2 wrong usage, 3 an alarm that a check raised; 130 and 141 are the
shell's own for an interrupt and for output that nobody reads any more.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from amem_launcher.framework import LazyGroup, Listed, Refused, debug_option, root_option

if TYPE_CHECKING:
    from collections.abc import Sequence

DONE, NO, USAGE, ALARM = 0, 1, 2, 3
INTERRUPTED, UNREAD = 130, 141
_MANY_OBJECTS = 100_000

_RECORD, _CORRECTION, _LEDGER = "The record", "Correction", "The ledger"
_TRAVEL, _HOUSE = "Travelling", "Keeping house"
TABLE = {
    "init": Listed("init", _RECORD, "Make a root and add a domain to it."),
    "write": Listed("write", _RECORD, "Write an entry, or a new version of one."),
    "search": Listed("search", _RECORD, "Find entries by their words, summaries first."),
    "get": Listed("get", _RECORD, "Read one entry, whole."),
    "recall": Listed("recall", _RECORD, "Answer a question with the best entries, inside a budget."),
    "t0": Listed("t0", _RECORD, "What a fresh session reads first."),
    "reject": Listed("reject", _CORRECTION, "Take a value out of use, so that nothing states it again."),
    "lift": Listed("lift", _CORRECTION, "Take a rejection back."),
    "verify": Listed("verify", _CORRECTION, "Record who checked an entry, and against what."),
    "task": Listed("task", _LEDGER, "File, claim, complete and list tasks."),
    "ingest": Listed("ingest", _TRAVEL, "Make entries of Markdown files; safe to run again."),
    "export": Listed("export", _TRAVEL, "Write a domain's entries into a bundle."),
    "import": Listed("importing", _TRAVEL, "Take a bundle in, all of it or nothing."),
    "serve": Listed("serve", _HOUSE, "Serve the memory to an agent over MCP."),
    "reindex": Listed("reindex", _HOUSE, "Rebuild index and ledger from the record and the log."),
    "log": Listed("log", _HOUSE, "Check the event log, and rebuild what follows from it."),
    "fsck": Listed("fsck", _HOUSE, "Check record, log, index and ledger against each other; repair."),
    "erase": Listed("erase", _HOUSE, "Erase every version of an entry, with a receipt."),
    "receipt": Listed("receipt", _HOUSE, "Show the accounts of erasures, checked against the log."),
    "doctor": Listed("doctor", _HOUSE, "Check everything; change nothing."),
    "plugins": Listed("plugins", _HOUSE, "List the backends and commands that are installed."),
    "completion": Listed("completion", _HOUSE, "Print a script that completes commands in a shell."),
    "demo": Listed("demo", _HOUSE, "Show a session that ends and one that goes on."),
}


class Amem(LazyGroup):
    """The program: every call ends in an exit code, none in a traceback for a person's mistake."""

    def main(self, args: Sequence[str] | None = None, **settings: Any) -> NoReturn:  # type: ignore[override]  # it always exits
        """Run one command line and exit."""
        arguments = sys.argv[1:] if args is None else list(args)
        sys.exit(self._run(arguments, settings))

    def _run(self, arguments: list[str], settings: dict[str, Any]) -> int:
        words = arguments[: arguments.index("--")] if "--" in arguments else arguments
        settings.update(prog_name="amem", complete_var="_AMEM_COMPLETE", standalone_mode=False)
        try:
            _check_text(arguments)
            code = super().main(arguments, **settings)
        except Exception as error:  # noqa: BLE001  # the last gate: whatever it is, a person gets a sentence and a code
            return _report(
                error, as_json="--json" in words, debug="--debug" in words or bool(os.environ.get("AMEM_DEBUG"))
            )
        except KeyboardInterrupt:
            return INTERRUPTED
        return code if isinstance(code, int) else DONE


def _check_text(arguments: list[str]) -> None:
    """Refuse arguments whose bytes were no UTF-8: they could neither be stored nor shown."""
    for place, argument in enumerate(arguments, 1):
        if not argument.isascii():
            try:
                argument.encode()
            except UnicodeEncodeError as error:
                message = f"argument {place} is not valid UTF-8 at character {error.start + 1}"
                raise Refused(
                    message, hint="give text in UTF-8; a body in another encoding goes through iconv first"
                ) from error


def _report(error: Exception, *, as_json: bool, debug: bool) -> int:
    """Say what went wrong and return the exit code."""
    from amem_launcher import output

    if isinstance(error, output.PipeClosedError):
        return UNREAD
    if isinstance(error, click.Abort):
        if isinstance(error.__cause__, KeyboardInterrupt):
            return INTERRUPTED
        output.say("amem: given up; nothing was changed")
        return NO
    if debug:
        _trace(error)
    try:
        if isinstance(error, click.ClickException):
            return _usage(error, as_json=as_json)
        from amem_core.errors import AmemError, CorruptionError

        if isinstance(error, AmemError):
            output.failure(error, as_json=as_json)
            return ALARM if isinstance(error, CorruptionError) else NO
        text = str(error) or type(error).__name__
        hint = "this is a fault of amem: run it again with --debug and report what it prints"
        output.problem("internal", f"internal error: {type(error).__name__}: {text}", hint, as_json=as_json)
    except output.PipeClosedError:
        return UNREAD
    return NO


def _usage(error: click.ClickException, *, as_json: bool) -> int:
    from amem_launcher import output

    hint = getattr(error, "hint", "")
    ctx = getattr(error, "ctx", None)
    if not hint and ctx is not None:
        hint = f"see: {ctx.command_path} --help"
    output.problem("usage", error.format_message(), hint, as_json=as_json)
    return USAGE


def _trace(error: Exception) -> None:
    import traceback

    from amem_launcher.output import say

    say("".join(traceback.format_exception(error)).rstrip())


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001  (click's signature)
    if value and not ctx.resilient_parsing:
        from amem_core import __version__

        click.echo(f"amem {__version__}")
        ctx.exit()


cli = Amem(
    "amem",
    table=TABLE,
    callback=lambda: None,
    help="Durable memory and a task ledger for disposable agents.",
    epilog="Every command teaches with examples: amem COMMAND --help",
    context_settings={"help_option_names": ["-h", "--help"], "obj": None},
    params=[
        root_option(),
        debug_option(),
        click.Option(
            ["--version"],
            is_flag=True,
            help="Print the version and exit.",
            callback=_version,
            expose_value=False,
            is_eager=True,
        ),
    ],
)


def main() -> NoReturn:
    """Run the command line of this process, and end the process."""
    # A command makes few cycles and ends soon; collecting while it imports costs a tenth of a search.
    gc.set_threshold(_MANY_OBJECTS)
    try:
        cli.main()
    except SystemExit as end:
        _leave(end.code if isinstance(end.code, int) else DONE)


def _leave(code: int) -> NoReturn:
    """End the process without taking the interpreter down piece by piece, which costs a fifth of a search.

    What is registered for the end of the process still runs, and what was printed is out.
    """
    atexit._run_exitfuncs()  # noqa: SLF001  # it has no public name; sys.exit would call it and then do the rest
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or UNREAD
    os._exit(code)
