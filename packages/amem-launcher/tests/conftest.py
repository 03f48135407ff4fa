"""A command line in an empty home, and a root with one domain."""

import json
from dataclasses import dataclass

import pytest
from click.testing import CliRunner

from amem_launcher.cli import cli


@dataclass(frozen=True)
class Answer:
    """What one call of ``amem`` gave."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        """The one JSON document on stdout."""
        return json.loads(self.out)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home directory and working directory of the test's own; no root is chosen by the environment."""
    for name in ("AMEM_ROOT", "AMEM_DEBUG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    here = tmp_path / "home" / "work"
    here.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(here.parent))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(here)
    return here.parent


@pytest.fixture
def amem(home):
    """Call ``amem`` in this process."""

    def call(*arguments, stdin=None):
        result = CliRunner().invoke(cli, [str(argument) for argument in arguments], input=stdin)
        assert not isinstance(result.exception, Exception), result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def notes(amem, home):
    """A root in ``~/.amem`` with the domain ``notes``."""
    assert amem("init", "--domain", "notes").code == 0
    return home / ".amem"


@pytest.fixture
def write(amem, notes):
    """Write an entry and return its id."""

    def call(title="A title", summary="A summary.", *more, stdin=None):
        answer = amem(
            "write", "-d", "notes", "--type", "fact", "--title", title, "--summary", summary, *more, stdin=stdin
        )
        assert answer.code == 0, answer.err
        return answer.out.strip()

    return call
