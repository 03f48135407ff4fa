"""The reference and the how-to guides say what the command line does, and nothing else."""

import re
import shlex
from pathlib import Path

import click
import pytest

from amem_core.domain import entries, queries, results, tasks
from amem_core.plugins.report import Found
from amem_core.services.filters import OPERATORS
from amem_launcher.cli import TABLE, cli
from amem_launcher.commands.plugins import Extra
from amem_launcher.framework import Context

DOCS = Path(__file__).parents[3] / "docs"
REFERENCE = DOCS / "reference" / "cli.md"
GUIDES = ["shell-completion.md", "ingest-a-folder.md", "move-memory.md", "check-and-repair.md"]
COMMON = {"--root", "--debug", "--json"}
SHAPES = [
    *(queries.SearchResult, queries.Hit, results.Reading, entries.Entry, results.Written, results.Pack, results.T0),
    *(results.TaskView, results.TaskNode, tasks.Task, results.Exported, results.Imported, results.Ingested),
    *(results.Broken, results.Reindexed, results.Erased, results.Check, Found, Extra),
    *(results.Rejected, results.Lifted, results.Verified, results.Receipt),
    *(results.Materialized, results.Adopted, results.Displaced, results.LogVerified, results.LogBreak),
    *(results.Fsck, results.Surveyed, results.Finding),
]


def commands():
    """Return every command by its full name; the demo is its author's."""
    found = {}
    for name in TABLE:
        if name == "demo":
            continue
        command = cli.get_command(Context(cli), name)
        if isinstance(command, click.Group):
            found |= {f"{name} {sub}": one for sub, one in command.commands.items()}
        else:
            found[name] = command
    return found


def sections(text):
    parts = re.split(r"^### amem (.+)$", text, flags=re.MULTILINE)
    return {name.strip(): body.partition("\n## ")[0] for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def rows(section):
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in section.splitlines()
        if line.startswith("| `")
    ]


def test_every_command_has_a_section_and_no_section_is_about_another():
    assert set(sections(REFERENCE.read_text())) == {*commands(), "demo"}


@pytest.mark.parametrize("name", commands())
def test_a_section_lists_the_options_of_its_command(name):
    documented = {cells[0]: cells[2] for cells in rows(sections(REFERENCE.read_text())[name])}
    expected = {}
    for param in commands()[name].params:
        if isinstance(param, click.Option) and not COMMON & set(param.opts):
            expected[", ".join(f"`{option}`" for option in param.opts)] = param
    assert list(documented) == list(expected)
    for options, param in expected.items():
        assert ("Required." in documented[options]) == param.required, options
        assert ("Repeatable." in documented[options]) == param.multiple, options
        if param.show_default is True:
            assert f"Default: `{param.default}`." in documented[options]


def test_the_table_of_filters_is_the_grammars():
    table = REFERENCE.read_text().partition("## Filters")[2].partition("\n## ")[0]
    documented = {cells[0].strip("`"): tuple(re.findall(r"`([^`]+)`", cells[1])) for cells in rows(table)}
    assert {field: set(found) for field, found in documented.items()} == {f: set(o) for f, o in OPERATORS.items()}


def test_the_shapes_are_those_of_the_results():
    table = REFERENCE.read_text().partition("## JSON shapes")[2]
    documented = {cells[0].strip("`"): re.findall(r"`([^`]+)`", cells[1]) for cells in rows(table)}
    assert documented == {
        shape.__name__: list(getattr(shape, "__dataclass_fields__", None) or shape._fields) for shape in SHAPES
    }


def calls(text):
    """Return every call of ``amem`` in lines of a shell, cut off where the shell's own syntax begins."""
    lines = re.sub(r'"\$\(([^)]*)\)"', r"; \1", text.replace("\\\n", " ")).splitlines()
    for line in lines:
        lexer = shlex.shlex(re.sub(r"\s# .*", "", line), posix=True, punctuation_chars="|<>;")
        lexer.whitespace_split, lexer.commenters = True, ""
        words = list(lexer)
        for place, word in enumerate(words):
            if word == "amem" and (place == 0 or words[place - 1] in {"|", ";"} or "=" in words[place - 1]):
                rest = words[place + 1 :]
                yield tuple(rest[: next((n for n, other in enumerate(rest) if other in {"|", "<", ">", ";"}), None)])


def shown():
    """Return every call in a shell block of our pages and in the examples of the helps."""
    pages = [REFERENCE, *(DOCS / "how-to" / name for name in GUIDES)]
    blocks = [block for page in pages for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)]
    texts = [*blocks, *(command.examples for command in commands().values())]
    return sorted({call for text in texts for call in calls(text)})


@pytest.mark.parametrize("words", shown(), ids=" ".join)
def test_every_example_is_a_call_that_the_command_line_takes(words):
    ctx = cli.make_context("amem", list(words))
    words = [*ctx._protected_args, *ctx.args]
    command = cli
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(ctx, words)
        ctx = command.make_context(name, words, parent=ctx)
        words = [*getattr(ctx, "_protected_args", []), *ctx.args]
    assert command.callback is not None
