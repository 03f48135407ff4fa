"""Killing a process at each of its steps: what the crash tests stand on.

A child is forked, its ``os`` functions that reach the disk are counted, and at the n-th the child
kills itself with SIGKILL, before or after the call. What it acknowledged before that comes back
over a pipe.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

STEPS = ("open", "write", "pwrite", "fsync", "fdatasync", "replace", "rename", "link", "unlink", "mkdir", "ftruncate")


@dataclass(frozen=True)
class Outcome:
    """What became of one child: ``acknowledged`` is what it said it had done, None when it was killed before."""

    killed_at: str | None
    acknowledged: str | None


def killed_at(number: int, action: Callable[[], str], *, after: bool) -> Outcome:
    """Run ``action`` in a child that dies at its ``number``-th step, before the step or ``after`` it."""
    answer_out, answer_in = os.pipe()
    step_out, step_in = os.pipe()
    child = os.fork()
    if child == 0:
        _run_child(number, action, answer_in, step_in, after=after)
    os.close(answer_in)
    os.close(step_in)
    _, status = os.waitpid(child, 0)
    answer, step = _all(answer_out), _all(step_out)
    if os.WIFSIGNALED(status):
        return Outcome(step or "?", answer or None)
    if os.WEXITSTATUS(status) != 0:
        message = f"the child failed by itself: {answer}"
        raise AssertionError(message)
    return Outcome(None, answer)


def _run_child(number: int, action: Callable[[], str], answer_in: int, step_in: int, *, after: bool) -> None:
    write = os.write
    count = 0

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            mine = count == number
            if mine:
                write(step_in, name.encode())
                if not after:
                    os.kill(os.getpid(), signal.SIGKILL)
            try:
                return real(*args, **kwargs)
            finally:
                # A call that fails, such as the opening of a file that is not there, is a step like any other.
                if mine:
                    os.kill(os.getpid(), signal.SIGKILL)

        return step

    for name in STEPS:
        setattr(os, name, counted(name, getattr(os, name)))
    code = 0
    try:
        write(answer_in, action().encode())
    except BaseException as exc:
        write(answer_in, f"{type(exc).__name__}: {exc}".encode())
        code = 1
    sys.stdout.flush()
    os._exit(code)


def _all(descriptor: int) -> str:
    parts = []
    while part := os.read(descriptor, 65536):
        parts.append(part)
    os.close(descriptor)
    return b"".join(parts).decode()
