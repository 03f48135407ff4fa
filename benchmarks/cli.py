"""C1: what starting the command line costs, beside an interpreter that imports the same libraries.

CPU of child processes, user and system, from compiled byte code; the commands take turns, and the
median of the rounds counts. ``python -m benchmarks cli`` prints it. Run it from an environment with the
wheels installed: an editable install makes every import look through more directories.
"""

from __future__ import annotations

import compileall
import os
import resource
import statistics
import subprocess
import sys
import tempfile

from amem_core import Memory
from amem_core.domain.entries import Draft
from benchmarks.harness import Row

ROUNDS = 15
ENTRIES = 200
_PROGRAM = "import sys; from amem_launcher.cli import main; main()"
_PACKAGES = ("amem_core", "amem_index", "amem_ledger", "amem_policy", "amem_store", "amem_launcher", "click")


def rows(scale: float = 1.0) -> list[Row]:
    """Return the rows of C1; ``scale`` multiplies rounds and entries."""
    _compile()
    with tempfile.TemporaryDirectory() as scratch:
        root = os.path.join(scratch, "root")
        _fill(root, max(10, int(ENTRIES * scale)))
        commands = {
            "click": ["-c", "import click"],
            "help": ["-c", _PROGRAM, "--help"],
            "click, sqlite3": ["-c", "import click, sqlite3"],
            "search": ["-c", _PROGRAM, "--root", root, "search", "lease of a claim", "--domain", "notes"],
        }
        cpu = _interleaved(commands, max(5, int(ROUNDS * scale)))
    return [
        Row(
            "C1 help", "amem --help: CPU at most 1.2 times `import click`", cpu["help"], cpu["click"], "ms CPU", "lower"
        ),
        Row(
            "C1 search",
            "amem search: CPU at most 1.3 times `import click, sqlite3`",
            cpu["search"],
            cpu["click, sqlite3"],
            "ms CPU",
            "lower",
        ),
    ]


def _compile() -> None:
    """Compile what is imported, so that no round pays for it."""
    for name in _PACKAGES:
        module = __import__(name)
        compileall.compile_dir(os.path.dirname(str(module.__file__)), quiet=2)


def _fill(root: str, count: int) -> None:
    Memory.init(root, domain="notes")
    drafts = [
        Draft(
            domain="notes", type="fact", title=f"Lease {n}", summary=f"A claim number {n} holds a lease of {n} seconds."
        )
        for n in range(count)
    ]
    with Memory.open(root) as memory, memory.session(author="owner") as session:
        session.write_many(drafts)


def _interleaved(commands: dict[str, list[str]], rounds: int) -> dict[str, float]:
    """Return the median CPU of each command in milliseconds; the first round warms the caches."""
    spent: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, arguments in commands.items():
            cpu = _cpu(arguments)
            if number:
                spent[name].append(cpu)
    return {name: statistics.median(figures) for name, figures in spent.items()}


def _cpu(arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
