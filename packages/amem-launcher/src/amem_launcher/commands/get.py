"""``amem get``: read one entry, whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from amem_launcher.framework import command as declare
from amem_launcher.framework import owner, state
from amem_launcher.params import clock_options, id_argument

if TYPE_CHECKING:
    from datetime import datetime

    from amem_core.domain.entries import Entry


@declare(
    "get",
    help="Read one entry, whole: its current version, an earlier one, or the one that was current at a time.",
    examples="""
amem get mem-01k...
amem get mem-01k... --version 1
amem get mem-01k... --as-of 2026-06-30T12:00:00Z
amem get mem-01k... --fenced  # as it is put into a model's context, marked as data
amem get mem-01k... --json | jq -r .entry.body
""",
)
@id_argument()
@click.option("--version", "version", metavar="N", type=int, help="An earlier version, from 1.")
@clock_options
@click.option("--fenced", is_flag=True, help="Print it marked as data, for a model's context.")
@click.pass_context
def command(  # noqa: PLR0917  (click passes every option by its name)
    ctx: click.Context,
    id: str,
    version: int | None,
    as_of: datetime | None,
    valid_at: datetime | None,
    fenced: bool,  # noqa: FBT001  (click's signature)
) -> None:
    """Read as the owner."""
    from amem_launcher import output

    with state(ctx).open() as memory, owner(memory) as session:
        reading = session.get(id, version=version, as_of=as_of, valid_at=valid_at)
    if state(ctx).json:
        output.answer(reading)
        return
    output.masks(reading.masks)
    output.notices(reading.notices)
    if fenced:
        output.out(reading.fenced)
        return
    output.styled(_head(reading.entry))
    if reading.entry.body:
        output.out(f"\n{reading.entry.body.rstrip()}")


def _head(entry: Entry) -> str:
    """Return the title, what the entry is, its summary and what a reader checks, a line each."""
    from amem_core.domain.plain import plain
    from amem_launcher.output import line, style

    facts = [
        f"{entry.id} v{entry.version}",
        f"{entry.updated:%Y-%m-%d}",
        f"{entry.type} · {entry.classification} · {entry.trust_tier} · {entry.domain} · {entry.status}",
        f"by {entry.author}",
    ]
    lines = [style(line(entry.title), "bold"), style(line("  ".join(facts)), "dim")]
    more = {
        "valid": f"{_open(entry.valid_from)} to {_open(entry.valid_until)}"
        if entry.valid_from or entry.valid_until
        else "",
        "confidence": "" if entry.confidence is None else str(entry.confidence),
        "review by": str(plain(entry.review_by) or ""),
        "supersedes": ", ".join(entry.supersedes),
        "superseded by": entry.superseded_by or "",
        "derived from": ", ".join(entry.derived_from),
        "tags": ", ".join(entry.tags),
        "aliases": ", ".join(entry.aliases),
    }
    lines += [style(f"{name}: {line(value)}", "dim") for name, value in more.items() if value]
    lines += [style(f"source: {line(source)}", "dim") for source in entry.source]
    lines += [style(f"verified: {line(_told(item, 'oracle', 'evidence'))}", "dim") for item in entry.verified]
    for item in entry.rejected:
        lines.append(style(f"rejected: {line(_told(item, 'reason'))}", "dim"))
        if isinstance(lifted := item.get("lifted"), Mapping):
            lines.append(style(f"lifted: {line(_told(lifted, 'reason'))}", "dim"))
    return "\n".join([*lines, "", line(entry.summary)])


def _told(item: Mapping[str, Any], *names: str) -> str:
    """Return an item of a list of records in a line: when, by whom, and what it names."""
    said = ": ".join(str(item[name]) for name in names if item.get(name))
    return f"{str(item.get('when', ''))[:10]} by {item.get('by', '?')}, {said}"


def _open(value: object) -> str:
    from amem_core.domain.plain import plain

    return "open" if value is None else str(plain(value))
