"""``python -m benchmarks [NAME…] [--scale N] [--json]``: every figure beside the raw engine's of the same run."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from importlib import import_module

from benchmarks.harness import Row

NAMES = ("memory", "opening", "index", "ledger", "postgres", "server", "cli")


def main() -> None:
    """Run the benchmarks that are named, or all, and print a table or JSON lines."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}; all when none is given")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies sizes and rounds (default 1)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(NAMES):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    for name in arguments.names or NAMES:
        print(f"{name} …", file=sys.stderr)
        rows: list[Row] = import_module(f"benchmarks.{name}").rows(arguments.scale)
        for row in rows:
            print(json.dumps(asdict(row) | {"ratio": row.ratio}) if arguments.json else _line(row), flush=True)


def _line(row: Row) -> str:
    return f"{row.id:14} {row.ours:12.1f} {row.raw:12.1f} {row.unit:9} ratio {row.ratio:7.3f}  {row.goal}"


if __name__ == "__main__":
    main()
