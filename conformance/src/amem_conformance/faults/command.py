"""``amem-conformance faults``: the table of faults and what came of them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from amem_conformance.faults.ground import prepared
from amem_conformance.faults.judging import warm
from amem_conformance.faults.rows import Row
from amem_conformance.faults.running import Case, cases, run
from amem_conformance.faults.table import as_json, as_markdown, as_text
from amem_core.errors import AmemError

_NARROW: Final = 79


def main(arguments: Sequence[str]) -> int:
    """Try every fault; return 0 when every promise held, 1 when one did not, 2 for wrong arguments."""
    parser = _parser()
    given = parser.parse_args(list(arguments))
    chosen = [case for case in cases() if _is_chosen(case, given)]
    if not chosen:
        parser.error(f"no case is called {', '.join(given.only)}; amem-conformance faults --list names them")
    if given.list:
        sys.stdout.write("".join(f"{case}\n" for case in chosen))
        return 0
    progress = _Progress(len(chosen))
    try:
        with prepared(tuple(given.keys), scratch=given.scratch) as ground:
            warm(ground)
            rows: list[Row] = []
            for row in run(ground, chosen, quick=given.quick, jobs=given.jobs, heard=progress.heard):
                progress.done(row)
                rows.append(row)
    except AmemError as error:
        sys.stderr.write(f"amem-conformance: {error}\n{error.hint}\n")
        return 2
    finally:
        progress.clear()
    ordered = sorted(rows, key=_place)
    if given.json:
        sys.stdout.write(as_json(ordered, ground.backends, quick=given.quick))
    else:
        sys.stdout.write(as_markdown(ordered) if given.markdown else as_text(ordered))
    return 1 if any(row.bad for row in ordered) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="amem-conformance faults",
        description="Stops and fails every step of every write, opens what is left, and prints what came of it.",
        epilog="Exit codes: 0 every promise held, 1 something was lost, half done or answered wrongly, 2 usage.",
    )
    parser.add_argument(
        "keys", nargs="*", metavar="KEY", help="a backend in the place of its port's, such as store.example"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a share of the points, as continuous integration tries them"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="cases whose name holds this (repeatable)"
    )
    parser.add_argument("--list", action="store_true", help="name the cases and try none")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="so many cases at a time")
    parser.add_argument(
        "--scratch", metavar="DIR", help="where the roots are made (default: in memory, where there is such)"
    )
    return parser


def _is_chosen(case: Case, given: argparse.Namespace) -> bool:
    return not given.only or any(text in str(case) for text in given.only)


def _place(row: Row) -> int:
    """Return where the row's case stands; only a situation's row says more of its fault than its case does."""
    names = [(case.table, case.subject, case.fault or row.fault) for case in cases()]
    return names.index((row.table, row.subject, row.fault))


class _Progress:
    """A line on standard error that says what is being tried; one for each case that is done where it is no terminal."""

    def __init__(self, of: int) -> None:
        self._of = of
        self._done = 0
        self._shown = sys.stderr.isatty()

    def heard(self, case: Case, done: int, of: int) -> None:
        """Show how far a case is."""
        if self._shown:
            line = f"{self._done} of {self._of} cases; {case}: {done} of {of}"
            sys.stderr.write(f"\r{line[:_NARROW].ljust(_NARROW)}")
            sys.stderr.flush()

    def done(self, row: Row) -> None:
        """Say that a case is done."""
        self._done += 1
        if not self._shown:
            state = f"{row.bad} broke a promise" if row.bad else "held"
            line = f"{self._done} of {self._of}: {row.table}: {row.subject}, {row.fault}: {row.tried} points, {state}"
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write(f"\r{' ' * _NARROW}\r")
            sys.stderr.flush()
