"""``python -m amem_server --root DIR``: the server alone, for a harness or an image without the command line."""

from __future__ import annotations

import argparse
import os
import sys

from amem_core import AmemError, Memory


def main() -> int:
    """Serve over stdio, or over HTTP on loopback with a token that is kept under the root; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m amem_server", description="Serve a memory over MCP.")
    parser.add_argument("--root", required=True, help="the root of the memory")
    parser.add_argument("--destination", help="where what is read goes, as the grants name it")
    parser.add_argument("--domain", action="append", dest="domains", help="only this domain (may be repeated)")
    parser.add_argument("--http", metavar="HOST:PORT", help="serve over HTTP instead of stdio")
    asked = parser.parse_args()
    host, _, port = (asked.http or "127.0.0.1:0").rpartition(":")
    if not port.isdecimal():
        parser.error("--http takes HOST:PORT")
    try:
        with Memory.open(asked.root, environ=os.environ) as memory:
            if asked.http is None:
                from amem_server import stdio  # noqa: PLC0415  (the SDK is imported by whoever serves)

                stdio.serve(memory, destination=asked.destination, domains=asked.domains)
            else:
                from amem_server import http  # noqa: PLC0415

                http.serve(
                    memory,
                    host=host,
                    port=int(port),
                    destination=asked.destination,
                    domains=asked.domains,
                    announce=_announce,
                )
    except AmemError as exc:
        sys.stderr.write(f"{exc}\n{exc.hint}\n" if exc.hint else f"{exc}\n")
        return 1
    return 0


def _announce(url: str, token_file: str | None) -> None:
    sys.stderr.write(f"listening on {url}\n")
    if token_file is not None:
        sys.stderr.write(f"the bearer token is in {token_file}\n")


if __name__ == "__main__":
    sys.exit(main())
