"""What the options of several commands have in common: types of values, and their completion."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem

    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # generic only since click 8.4

LABELS = ("public", "internal", "confidential", "restricted")
REASONS = ("requested", "mistaken", "sensitive", "legal")
ORACLES = ("ci", "data", "human", "source")
STATUSES = ("ready", "claimed", "completed")
_DURATION = r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?"
_SECONDS = (86_400, 3_600, 60, 1)


class _Read(ParamType):
    """A type whose values one of core's readers reads; its refusal becomes a usage error with core's hint."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value that the text names."""
        from amem_core.errors import InvalidError

        if not isinstance(value, str):
            return value
        try:
            return self.read(value)
        except InvalidError as error:
            wrong = click.BadParameter(str(error), ctx=ctx, param=param)
            wrong.hint = error.hint  # type: ignore[attr-defined]  # shown by the program's last gate
            raise wrong from error

    def read(self, text: str) -> Any:
        """Return the value that ``text`` names."""
        raise NotImplementedError


class Time(_Read):
    """A time in UTC; a date stands for its first moment."""

    name = "time"

    def read(self, text: str) -> Any:
        """Return an aware time."""
        from amem_core.domain.plain import parse_time

        return parse_time(text)


class Moment(_Read):
    """A date, or a time with its offset."""

    name = "time"

    def read(self, text: str) -> Any:
        """Return a date or an aware time."""
        from amem_core.domain.plain import parse_moment

        return parse_moment(text)


class Day(_Read):
    """A date."""

    name = "date"

    def read(self, text: str) -> Any:
        """Return a date."""
        from amem_core.domain.plain import parse_day

        return parse_day(text)


class Duration(_Read):
    """A length of time such as ``90s``, ``15m``, ``2h`` or ``1d12h``, as seconds."""

    name = "duration"

    def read(self, text: str) -> Any:
        """Return seconds."""
        found = re.fullmatch(_DURATION, text.strip().lower())
        if found is None or not any(found.groups()):
            from amem_core.errors import InvalidError

            message = f"{text!r} is not a length of time"
            raise InvalidError(message, hint="write a number and a unit: 90s, 15m, 2h or 1d")
        return float(sum(int(count) * unit for count, unit in zip(found.groups(), _SECONDS, strict=True) if count))


def _complete_domain(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from amem_launcher.completing import domains

    return domains(ctx, incomplete)


def _complete_id(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from amem_launcher.completing import ids

    return ids(ctx, incomplete)


def clock_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--as-of`` and ``--valid-at``, the two clocks of every answer."""
    command = click.option("--valid-at", metavar="TIME", type=Time(), help="From what was true in the world then.")(
        command
    )
    return click.option("--as-of", metavar="TIME", type=Time(), help="From what was known then, as it stood then.")(
        command
    )


def domain_option(purpose: str, *, required: bool = False, multiple: bool = False) -> Callable[[Any], Any]:
    """Return ``--domain``, completed from what is there."""
    return click.option(
        "--domain",
        "-d",
        "domains" if multiple else "domain",
        metavar="D",
        required=required,
        multiple=multiple,
        help=purpose,
        shell_complete=_complete_domain,
    )


def id_argument() -> Callable[[Any], Any]:
    """Return the argument ID, completed from what is there."""
    return click.argument("id", metavar="ID", shell_complete=_complete_id)


def lease_option() -> Callable[[Any], Any]:
    """Return ``--lease``."""
    return click.option(
        "--lease",
        metavar="TIME",
        type=Duration(),
        default="15m",
        show_default=True,
        help="How long it is held: 90s, 15m, 2h.",
    )


def read_text(path: str, option: str) -> str:
    """Return a text file's content, or that of stdin for ``-``, without its byte order mark.

    Raises:
        UsageError: it cannot be read.
        InvalidError: it is no UTF-8.
    """
    data = _read_bytes(path, option)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        from amem_core.errors import InvalidError

        name = "stdin" if path == "-" else path
        message = f"{name} is not UTF-8: byte {error.start} cannot be read"
        raise InvalidError(message, hint="turn it to UTF-8 first, for example with iconv") from error


def _read_bytes(path: str, option: str) -> bytes:
    if path == "-":
        if sys.stdin.isatty():
            from amem_launcher.output import say

            say("reading from the terminal; end with Ctrl-D on a line of its own")
        return sys.stdin.buffer.read()
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:
        from amem_launcher.framework import Refused

        reason = getattr(error, "strerror", None) or error
        message = f"{option} {path}: {reason}"
        raise Refused(message, hint=f"give {option} a file that can be read, or - for stdin") from error
