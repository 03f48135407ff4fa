"""Where the demo plays: a directory of its own that is gone afterwards."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amem_core.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Generator

DOMAIN = "demo"


@dataclass(frozen=True, slots=True)
class Stage:
    """The demo's directory. ``root`` is the memory that it plays on; nothing outside ``home`` is written."""

    home: str

    @property
    def root(self) -> str:
        """The root's path."""
        return os.path.join(self.home, "root")

    def beside(self, name: str) -> str:
        """Return the path of something that the demo makes beside its root."""
        return os.path.join(self.home, name)


@contextmanager
def staged(*, keep: bool) -> Generator[Stage]:
    """Make the directory, and take it away again unless it is to be kept.

    Raises:
        UnavailableError: it cannot be made.
    """
    try:
        home = os.path.realpath(tempfile.mkdtemp(prefix="amem-demo-"))
    except OSError as exc:
        message = f"no directory for the demo can be made in {tempfile.gettempdir()}: {exc.strerror}"
        raise UnavailableError(message, hint="set TMPDIR to a directory that this user may write to") from exc
    try:
        yield Stage(home)
    finally:
        if not keep:
            shutil.rmtree(home, ignore_errors=True)


class StepError(Exception):
    """What a step was to show does not hold."""


def hold(condition: object, problem: str) -> None:
    """Go on when ``condition`` is true.

    Raises:
        StepError: it is not; ``problem`` says what does not hold.
    """
    if not condition:
        raise StepError(problem)
