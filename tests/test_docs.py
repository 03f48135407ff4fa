"""What the documentation shows is true: its blocks run, its settings load, its links resolve, its tables are whole.

``pages.py`` says how a block is read. Each page has a home of its own, with a copy of this repository's
Markdown to work on and ``amem`` on the path; ``AMEM_ROOT`` is ``~/.amem``.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib

import pytest
import yaml
from driving import environment, program
from pages import PARSED, REPOSITORY, RUN, SHOWN, anchors, blocks, commands, links, matches, pages, prose

from amem_core import errors
from amem_core.config import load_config
from amem_core.memory import Memory
from amem_core.plugins.loader import BUILT_IN, load_backend
from amem_core.plugins.settings import build_settings
from amem_core.session import Session
from amem_policy.grants import parse_grants
from amem_server.tools import TOOLS

SECONDS = 240
# What a page takes as given, done before its first block.
GIVEN = {
    "docs/format/log.md": "amem init --domain notes && amem ingest README.md --domain notes",
    "README.md": "mkdir -p ~/notes && cp docs/index.md ~/notes",
    "docs/how-to/move-memory.md": "amem init --domain my-project && amem init --domain archive"
    " && amem ingest README.md --domain my-project",
    "docs/how-to/shell-completion.md": "mkdir -p ~/.config/fish/completions",
}
PAGES = pages()
BLOCKS = [block for page in PAGES for block in blocks(page)]


def ran(page):
    return [block for block in blocks(page) if block.language in RUN and not block.skipped]


@pytest.fixture
def home(tmp_path):
    """A home with a working directory that holds the repository's Markdown, and ``amem`` on the path."""
    work = tmp_path / "home" / "work"
    work.mkdir(parents=True)
    shutil.copytree(REPOSITORY / "docs", work / "docs")
    shutil.copy(REPOSITORY / "README.md", work)
    place = tmp_path / "bin"
    place.mkdir()
    for name, words in (("amem", program()), ("python", [sys.executable])):
        (place / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        (place / name).chmod(0o700)
    return work.parent


def script(page, results):
    """Return one bash script that runs every block of the page and keeps what each prints and gives."""
    lines = ["set -u -o pipefail"]

    def add(name, text, *, strict):
        out = results / name
        # In a group of the one shell, so that a variable that is set here is there in the next block.
        lines.append(f"printf started > {out}.code")
        lines.append(f"{{ {'set -e' if strict else ':'}\n{text}\n}} > {out}.out 2>&1 < /dev/null")
        lines.append(f"printf %s $? > {out}.code; set +e")

    if page in GIVEN:
        add("given", GIVEN[page], strict=True)
    for block in ran(page):
        if block.language == "sh":
            add(f"{block.line}", block.text, strict=True)
        elif block.language == "python":
            add(f"{block.line}", f"python - <<'END_OF_BLOCK'\n{block.text}END_OF_BLOCK", strict=True)
        else:
            for number, command in enumerate(commands(block)):
                add(f"{block.line}.{number}", command.text, strict=False)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("page", [page for page in PAGES if ran(page)])
def test_what_a_page_shows_runs(page, home, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    env = environment() | {"HOME": str(home), "AMEM_ROOT": str(home / ".amem"), "PATH": path, "COLUMNS": "100"}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc"],
        input=script(page, results),
        cwd=home / "work",
        env=env,
        timeout=SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )

    def result(name):
        printed = (results / f"{name}.out").read_text() if (results / f"{name}.out").exists() else ""
        code = (results / f"{name}.code").read_text() if (results / f"{name}.code").exists() else "never begun"
        return code, printed

    if page in GIVEN:
        assert result("given")[0] == "0", f"{page}: what it takes as given\n{result('given')[1]}{done.stderr}"
    for block in ran(page):
        if block.language != "console":
            code, printed = result(f"{block.line}")
            assert code == "0", f"{block}: {code}\n{block.text}{printed}{done.stderr}"
            continue
        for number, command in enumerate(commands(block)):
            code, printed = result(f"{block.line}.{number}")
            assert command.may_fail or code == "0", f"{block}: {code}\n$ {command.text}\n{printed}{done.stderr}"
            shown = "\n".join(command.expected)
            same = matches(command.expected, printed.splitlines())
            assert same, f"{block}\n$ {command.text}\nshown:\n{shown}\n\nprinted:\n{printed}"


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_block_says_what_it_is(block):
    assert block.language in RUN | PARSED | SHOWN, (
        f"{block}: {block.language!r} is nothing that is run, parsed or shown"
    )


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.skipped], ids=lambda b: f"{b} {b.reason}")
def test_a_block_that_is_not_run_says_why(block):
    assert block.reason, f"{block}: write not-run (reason)"
    assert block.language in RUN, f"{block}: only what is run can be kept from it"


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language in PARSED], ids=str)
def test_settings_and_documents_are_what_they_say(block, tmp_path):
    if block.language == "json":
        json.loads(block.text)
    elif block.language == "yaml":
        yaml.safe_load(block.text)
    else:
        tomllib.loads(block.text)
    if block.info == "amem.toml":
        (tmp_path / "amem.toml").write_text(block.text)
        (tmp_path / "credentials.env").touch(0o600)
        config = load_config(str(tmp_path))
        secrets = dict.fromkeys(re.findall(r'env = "(\w+)"', block.text), "secret")
        for port in config.backends:
            if config.key(port) in BUILT_IN:
                spec = load_backend(config.key(port))
                module, _, name = spec.settings.partition(":")
                kind = getattr(__import__(module, fromlist=[name]), name)
                build_settings(kind, config.tables.get(port), where=str(block), environ=secrets, root=str(tmp_path))
            else:
                # A stranger's backend is an example: it must be allowed, as a real one would have to be.
                assert config.key(port) in config.allow, f"{block}: {config.key(port)}"
    elif block.info == "grants.toml":
        parse_grants(block.text.encode(), str(block))
    else:
        assert block.info == "", f"{block}: {block.info!r} is no file that amem reads"


@pytest.mark.parametrize("page", PAGES)
def test_every_link_within_the_repository_resolves(page):
    for target in links(page):
        path, _, anchor = target.partition("#")
        found = (REPOSITORY / page).parent / path if path else REPOSITORY / page
        assert found.exists(), f"{page}: {target}"
        if anchor and found.suffix == ".md":
            assert anchor in anchors(str(found.resolve().relative_to(REPOSITORY))), f"{page}: {target}"


def test_every_page_can_be_reached_from_the_first():
    reached, waiting = set(), ["docs/index.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        for target in links(page):
            found = ((REPOSITORY / page).parent / target.partition("#")[0]).resolve()
            if found.suffix == ".md" and found.is_relative_to(REPOSITORY):
                waiting.append(str(found.relative_to(REPOSITORY)))
    assert [page for page in PAGES if page.startswith("docs/") and page not in reached] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_one_title_and_it_comes_first(page):
    text = (REPOSITORY / page).read_text()
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", prose(page), re.MULTILINE)) == 1


# The reference pages are whole: what is there is listed, and what is listed is there.


def listed(page, heading, column=0):
    """Return the code words in one column of the table below a heading."""
    text = (REPOSITORY / "docs" / "reference" / page).read_text()
    section = re.split(r"^#+ ", text.partition(f"# {heading}\n")[2], flags=re.MULTILINE)[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return [re.findall(r"`([^`]+)`", row.split(" | ")[column])[0] for row in rows]


def test_the_reference_of_errors_has_every_code():
    def tree(kind):
        return [kind, *(below for sub in kind.__subclasses__() for below in tree(sub))]

    ours = {kind for kind in tree(errors.AmemError) if kind.__module__ == "amem_core.errors"} - {errors.AmemError}
    assert set(listed("errors.md", "The codes")) == {kind.code for kind in ours}
    assert set(listed("errors.md", "The codes", 1)) == {kind.__name__ for kind in ours}


def test_the_reference_of_configuration_has_every_backend_and_setting():
    text = (REPOSITORY / "docs" / "reference" / "configuration.md").read_text()
    for key in BUILT_IN:
        assert f"`{key}`" in text, key
        spec = load_backend(key)
        module, _, kind = spec.settings.partition(":")
        for setting in getattr(__import__(module, fromlist=[kind]), kind).__annotations__:
            assert f"`{key}.{setting}`" in text, setting


def test_the_reference_of_python_has_every_public_method():
    for kind in (Memory, Session):
        public = {
            name
            for name, value in vars(kind).items()
            if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, classmethod))
        }
        inner = {"decide", "served"}
        assert set(listed("python.md", kind.__name__)) == public - inner


@pytest.mark.parametrize("name", TOOLS)
def test_the_reference_of_the_tools_has_every_argument_with_its_limits(name):
    tool = TOOLS[name]
    assert listed("mcp-tools.md", name) == list(tool.arguments.model_fields)
    text = (REPOSITORY / "docs" / "reference" / "mcp-tools.md").read_text()
    section = re.split(r"^## ", text.partition(f"## {name}\n")[2], flags=re.MULTILINE)[0]
    required = tool.input_schema.get("required", [])
    for argument in tool.arguments.model_fields:
        (row,) = [line for line in section.splitlines() if line.startswith(f"| `{argument}` ")]
        assert ("required" in row) == (argument in required), row
    for key in tool.result.__annotations__:
        assert f"`{key}`" in section, key


def test_the_reference_of_the_tools_is_about_the_tools_that_there_are():
    text = (REPOSITORY / "docs" / "reference" / "mcp-tools.md").read_text()
    assert re.findall(r"^## ([a-z0-9_]+)$", text, re.MULTILINE) == list(TOOLS)


def test_a_page_that_shows_what_is_not_so_is_caught():
    assert matches(("mem-… written", "…", "end"), ["mem-01 written", "a", "b", "end"])
    assert matches(("one", "…"), ["one"])
    assert not matches(("mem-… written",), ["mem-01 unchanged"])
    assert not matches(("one",), ["one", "two"])
    assert not matches(("one", "two"), ["one"])
    assert not matches((), ["one"])
