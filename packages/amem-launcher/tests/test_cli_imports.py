"""What starting the command line imports: counted, because counts do not move with the machine."""

import os
import subprocess
import sys

import pytest

FORBIDDEN = {
    "asyncio",
    "confluent_kafka",
    "httpx",
    "importlib.metadata",
    "logging",
    "mcp",
    "opentelemetry.sdk",
    "pathlib",
    "pluggy",
    "psycopg",
    "pydantic",
    "s3fs",
    "shutil",
    "starlette",
    "subprocess",
    "tempfile",
    "urllib",
    "uvicorn",
    "yaml",
}
# Without the site: what a path file in this environment imports is none of ours.
PROBE = """
import sys
sys.path[:0] = {path!r}
from amem_launcher.cli import cli
sys.argv = ["amem", *{arguments!r}]
try:
    cli.main()
finally:
    print("MODULES", *sorted(sys.modules), file=sys.stderr)
"""


def modules(arguments, root):
    script = PROBE.format(path=[path for path in sys.path if path], arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script],
        env={**os.environ, "AMEM_ROOT": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.partition("MODULES ")[2].split())


def test_help_imports_click_and_the_frame_and_nothing_else_of_ours(home):
    found = modules(["--help"], home)
    assert not FORBIDDEN & found
    assert {name for name in found if name.startswith("amem_")} == {
        "amem_launcher",
        "amem_launcher.cli",
        "amem_launcher.framework",
    }


@pytest.mark.parametrize(
    "more", [[], ["--json"], ["--domain", "notes", "--filter", "type = fact", "--as-of", "2999-01-01"]]
)
def test_a_search_imports_no_driver_that_it_does_not_use(write, notes, more):
    write("Findable", "It can be found.")
    found = modules(["search", "findable", *more], notes)
    assert not FORBIDDEN & found
    assert "amem_core.services.writing" not in found
    assert ("amem_core.services.filters" in found) == ("--filter" in more)
    assert not {name for name in found if name.startswith(("amem_server", "amem_ledger"))}
