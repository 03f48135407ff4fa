"""``amem serve``: serve the memory to an agent over MCP. The one place where the launcher imports the server."""

from __future__ import annotations

import os

import click

from amem_launcher.framework import Refused, state
from amem_launcher.framework import command as declare
from amem_launcher.params import ParamType, domain_option


class _Address(ParamType):
    """``HOST:PORT``; an IPv6 host stands in brackets."""

    name = "host:port"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Return host and port."""
        host, colon, port = str(value).rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdecimal() or int(port) > 65_535:  # noqa: PLR2004  (the highest port)
            self.fail(f"{value!r} is not HOST:PORT, such as 127.0.0.1:8420", param, ctx)
        return host, int(port)


@declare(
    "serve",
    wordy=True,
    help="Serve the memory to an agent over MCP: one session on standard input and output, or many over HTTP."
    " An agent's harness starts it; it ends when its input ends.",
    examples="""
amem serve  # a harness runs this
amem serve --domain my-project --destination model
amem serve --http 127.0.0.1:8420  # with a token that it keeps in the root
AMEM_TOKEN=... amem serve --http 10.0.0.5:8420 --token-env AMEM_TOKEN
""",
)
@click.option(
    "--http", metavar="HOST:PORT", type=_Address(), help="Serve streamable HTTP there; else standard input and output."
)
@click.option(
    "--destination", metavar="NAME", help="Where what is read goes; the grants give its ceiling.  [default: model]"
)
@domain_option("Serve this domain only.  [repeatable]", multiple=True)
@click.option(
    "--token-env", metavar="NAME", help="With --http: the environment variable that holds the clients' token."
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    metavar="NAME",
    multiple=True,
    help="With --http: another name or address by which clients reach it.  [repeatable]",
)
@click.pass_context
def command(  # noqa: PLR0917  (click passes every option by its name)
    ctx: click.Context,
    http: tuple[str, int] | None,
    destination: str | None,
    domains: tuple[str, ...],
    token_env: str | None,
    allowed_hosts: tuple[str, ...],
) -> None:
    """Serve until the input ends or a signal comes."""
    narrowed = domains or None
    if http is None:
        if token_env is not None or allowed_hosts:
            option = "--token-env" if token_env is not None else "--allowed-host"
            raise Refused(f"{option} goes with --http", hint="leave it out: on standard input nobody else can connect")
        with state(ctx).open() as memory:
            from amem_server.stdio import serve

            serve(memory, destination=destination, domains=narrowed)
        return
    host, port = http
    token = _token(token_env)
    with state(ctx).open() as memory:
        from amem_server.http import serve as serve_http

        serve_http(
            memory,
            host=host,
            port=port,
            token=token,
            destination=destination,
            domains=narrowed,
            allowed_hosts=allowed_hosts,
            announce=_announce,
        )


def _announce(url: str, token_file: str | None) -> None:
    """Say where it listens and where the token is, never the token itself."""
    from amem_launcher.output import say

    say(f"serving at {url}; end with Ctrl-C")
    if token_file is not None:
        say(f"  every request carries the token that is in {token_file}")


def _token(name: str | None) -> str | None:
    """Return the token that the environment variable holds.

    Raises:
        Refused: the variable is not there or empty.
    """
    if name is None:
        return None
    token = os.environ.get(name, "")
    if not token.strip():
        raise Refused(
            f"--token-env {name}: the environment has no such variable, or it is empty", hint=f"set {name} to a secret"
        )
    return token
