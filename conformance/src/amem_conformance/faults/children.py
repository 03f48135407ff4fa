"""Work in a process of its own, which may die of it: what it told before that is kept."""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

Tell = Callable[[Any], None]
Work = Callable[[Tell], None]

LONGEST: Final = 60.0
_FAILED: Final = "failed"


@dataclass
class Child:
    """A process that works. ``told`` is what it has told so far, as JSON brought it."""

    pid: int
    pipe: int
    told: list[Any] = field(default_factory=list[Any])
    status: int | None = None
    hung: bool = False
    _rest: bytes = b""

    @property
    def killed(self) -> bool:
        """Whether a signal ended it."""
        return self.status is not None and os.WIFSIGNALED(self.status)

    @property
    def failure(self) -> str | None:
        """What ended it by itself, None when it came to its end or was killed."""
        if self.hung:
            return f"it hung for {LONGEST:g} s and was ended"
        last = self.told[-1] if self.told else None
        if isinstance(last, dict) and _FAILED in last:
            return str(last[_FAILED])  # pyright: ignore[reportUnknownArgumentType]  (JSON)
        if self.status is not None and not self.killed and os.waitstatus_to_exitcode(self.status):
            return f"it ended with {os.waitstatus_to_exitcode(self.status)}"
        return None

    def take(self) -> bool:
        """Take in what is in the pipe; return False at its end, when the process has ended."""
        data = os.read(self.pipe, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.told += map(json.loads, lines)
        if data:
            return True
        os.close(self.pipe)
        self.status = os.waitpid(self.pid, 0)[1]
        return False

    def end(self) -> None:
        """End a process that hangs."""
        self.hung = True
        os.kill(self.pid, signal.SIGKILL)


def start(work: Work) -> Child:
    """Fork a process that does ``work`` and exits; what it gives to its argument is told to this one."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, reading)
    code = 1
    try:
        os.close(reading)

        def tell(what: Any) -> None:
            data = memoryview(json.dumps(what).encode() + b"\n")
            while data:
                data = data[os.write(writing, data) :]

        try:
            work(tell)
            code = 0
        except BaseException as error:  # noqa: BLE001  (the parent is told, and this process is at its end)
            tell({_FAILED: "".join(traceback.format_exception(error, limit=-4))})
    finally:
        os._exit(code)


def finished(work: Work, *, longest: float = LONGEST) -> Child:
    """Do ``work`` in a process of its own and wait for its end, but no longer than so many seconds."""
    child = start(work)
    until = time.monotonic() + longest
    with selectors.DefaultSelector() as selector:
        selector.register(child.pipe, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, until - time.monotonic())):
                child.end()
                until = time.monotonic() + longest
            elif not child.take():
                return child
