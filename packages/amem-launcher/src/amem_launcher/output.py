"""What leaves the command line: results on stdout, messages on stderr, always valid UTF-8.

Text of the record was written by others. On a terminal its control characters are shown, never obeyed.
"""

from __future__ import annotations

import os
import re
import sys
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amem_core.domain.results import Broken, Finding
    from amem_core.errors import AmemError

# Compiled when a text holds what cannot be printed as it is. Control characters but tab and newline, and the marks that reorder what stands around them.
_CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


class PipeClosedError(Exception):
    """Whoever read our output has gone: there is nobody to tell."""


def _terminal(stream: IO[str]) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False


def on_terminal() -> bool:
    """Return whether results go to a terminal."""
    return _terminal(sys.stdout)


def _send(stream: IO[str], text: str) -> None:
    """Write ``text`` as UTF-8, whatever the stream's own encoding; what UTF-8 cannot hold becomes ``?``."""
    data = text.encode("utf-8", "replace")
    try:
        binary = getattr(stream, "buffer", None)
        if binary is None:
            stream.write(data.decode())
        else:
            stream.flush()
            rest = memoryview(data)
            # Where Python's output is unbuffered, a write to a pipe may take a part only.
            while rest:
                rest = rest[binary.write(rest) :]
        stream.flush()
    except BrokenPipeError as error:
        _silence(stream)
        raise PipeClosedError from error


def _silence(stream: IO[str]) -> None:
    """Point the stream's descriptor nowhere, so that the interpreter's last flush does not complain."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return


def out(text: str) -> None:
    """Print a result and a newline."""
    _send(sys.stdout, f"{shown(text)}\n" if on_terminal() else f"{text}\n")


def styled(text: str) -> None:
    """Print a result that holds our own styles; what it quotes was made safe with ``line`` or ``shown``."""
    _send(sys.stdout, f"{text}\n")


def say(text: str) -> None:
    """Print a message for the person on stderr."""
    _send(sys.stderr, f"{shown(text)}\n")


def masks(ran: Iterable[str]) -> None:
    """Say which clocks an answer went by."""
    for mask in ran:
        say(f"answered {mask}")


def notices(sentences: Iterable[str]) -> None:
    """Print what a reader must be told, a line each, on stderr."""
    for sentence in sentences:
        say(f"note: {line(sentence)}")


def shown(text: str) -> str:
    """Return ``text`` with its control characters written out, so that none acts on a terminal."""
    if text.isprintable():
        return text
    return re.sub(_CONTROL, lambda found: ascii(found.group())[1:-1], text)


def line(text: str) -> str:
    """Return ``text`` as one line that is safe to show."""
    return shown(" ".join(text.split()))


def style(text: str, *names: str) -> str:
    """Return ``text`` with terminal styles, when results go to a terminal that wants them."""
    if not wants_colour(sys.stdout):
        return text
    return f"\x1b[{';'.join(_STYLES[name] for name in names)}m{text}\x1b[0m"


def wants_colour(stream: IO[str]) -> bool:
    """Return whether colour may be sent: to a terminal, unless ``NO_COLOR`` is set or it is dumb."""
    return _terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def answer(value: Any) -> None:
    """Print a result as one JSON document: indented on a terminal, one line elsewhere."""
    import json

    from amem_core.domain.plain import plain

    indent = 2 if on_terminal() else None
    # Escaped control characters are JSON's own; C1 controls and reordering marks are not, so `out` shows them.
    styled(json.dumps(plain(value), ensure_ascii=on_terminal(), indent=indent, allow_nan=False))


def failure(error: AmemError, *, as_json: bool) -> None:
    """Print an error for a person, and as a JSON document when one was asked for."""
    problem(error.code, str(error), error.hint, retryable=error.retryable, as_json=as_json)


def problem(code: str, message: str, hint: str, *, retryable: bool = False, as_json: bool) -> None:
    """Print what went wrong and what to do next on stderr; with ``as_json`` also as a document on stdout."""
    say(f"amem: {line(message)}")
    if hint:
        say(f"  hint: {line(hint)}")
    if as_json:
        answer({"error": {"code": code, "message": message, "hint": hint, "retryable": retryable}})


def broken(files: Iterable[Broken]) -> None:
    """Print files that could not be read as entries, with place and reason, on stderr."""
    for file in files:
        place = file.path if file.line is None else f"{file.path}:{file.line}"
        say(f"broken: {line(place)}: {line(file.reason)}")


def findings(found: Iterable[Finding]) -> None:
    """Print what a check found, the place and the remedy of each, on stderr."""
    for each in found:
        place = each.path if each.path is not None else each.id
        if each.line is not None and place is not None:
            place = f"{place}:{each.line}"
        words = [f"{each.state}:", f"{each.domain}:", *([f"{line(place)}:"] if place else []), line(each.detail)]
        say(" ".join(words))
        if each.remedy:
            say(f"  hint: {line(each.remedy)}")
