"""``amem-conformance KEY``: the suite of one port against one backend, with pytest's own options."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Sequence

import pytest

from amem_conformance.loading import port_of
from amem_core.errors import AmemError

USAGE = """\
usage: amem-conformance KEY... [pytest options]
       amem-conformance faults [KEY...] [--help]

Runs the conformance suite against backends, such as 'amem-conformance index.sqlite'. Further options:
  --amem-report FILE.json|FILE.md   write the matrix of requirements
  --amem-require all|none|NAME,...  which backends and services fail the run where they are not there (all)
  --amem-only ID                    run the tests of this requirement only (repeatable)
  --amem-harness KEY=module:object  use this harness instead of the registered one

'faults' stops and fails every step of every write on a root with these backends, and prints what came of it.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite; return pytest's exit code, or 2 for wrong arguments."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["faults"]:
        from amem_conformance.faults import command  # noqa: PLC0415  (the suite needs none of it)

        return command.main(given[1:])
    keys: list[str] = []
    while given and not given[0].startswith("-"):
        keys.append(given.pop(0))
    if not keys:
        sys.stderr.write(USAGE)
        return 2
    try:
        ports = sorted({port_of(key) for key in keys})
    except AmemError as error:
        sys.stderr.write(f"amem-conformance: {error}\n{error.hint}\n")
        return 2
    if not any(argument.startswith("--amem-require") for argument in given):
        given.append("--amem-require=all")
    chosen = [f"--amem-backend={key}" for key in keys]
    modules = [f"amem_conformance.suite.{port}" for port in ports]
    # pytest cannot rewrite the asserts of a package that runs this very function; the suite's own it can.
    hushed = "ignore:Module already imported so cannot be rewritten; amem_conformance:pytest.PytestAssertRewriteWarning"
    return int(pytest.main(["-p", plugin_name(), *chosen, *given, "-W", hushed, "--pyargs", *modules]))


def plugin_name() -> str:
    """Return the name by which pytest loads the plugin once, installed or from a source tree."""
    registered = any(importlib.metadata.entry_points(group="pytest11", name="amem_conformance"))
    return "amem_conformance" if registered else "amem_conformance.plugin"


if __name__ == "__main__":
    sys.exit(main())
