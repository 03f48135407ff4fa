"""What a person gets for a mistake: a sentence, a remedy and a code, never a traceback."""

import os
import signal
import subprocess
import sys

import pytest

import amem_core.session
from amem_core.errors import CorruptionError, UnavailableError

PROGRAM = [sys.executable, "-c", "from amem_launcher.cli import main; main()"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "a command is missing"),
        (("serch",), "there is no command 'serch'"),
        (("task",), "a command is missing"),
        (("task", "creat"), "there is no command 'creat'"),
        (("search",), "Missing argument 'QUERY'"),
        (("search", "a", "b"), "unexpected extra argument"),
        (("search", "x", "--limit", "many"), "not a valid integer"),
        (("search", "x", "--depth", "all"), "--depth"),
        (("search", "x", "--colour"), "No such option"),
        (("--colour", "search"), "No such option"),
        (("write", "-d", "notes"), "Missing option '--type'"),
        (("write", "--label", "secret"), "secret"),
        (("erase", "mem-1", "--reason", "whim"), "whim"),
        (("get",), "Missing argument 'ID'"),
    ],
)
def test_wrong_usage_is_two_with_a_remedy(amem, notes, arguments, says):
    answer = amem(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err
    assert "hint:" in answer.err


def test_a_misspelt_command_gets_the_one_that_was_meant(amem, home):
    assert "did you mean: amem search" in amem("serch").err
    assert "did you mean: amem task claim-next" in amem("task", "claim-nxt").err


@pytest.mark.parametrize("limit", ["0", "-1", "101", "99999999999999999999"])
def test_a_number_out_of_range_is_refused(amem, notes, limit):
    for command in (("search", "x"), ("task", "claim-next"), ("recall", "x")):
        answer = amem(*command, "--limit", limit)
        assert answer.code == 1
        assert "hint:" in answer.err


def test_with_json_an_error_is_a_document_too(amem, notes):
    refused = amem("get", "mem-unknown", "--json")
    assert refused.code == 1
    assert set(refused.json["error"]) == {"code", "message", "hint", "retryable"}
    assert refused.json["error"]["code"] == "not-found"
    assert refused.err.startswith("amem: ")
    usage = amem("search", "--json", "--limit", "x")
    assert (usage.code, usage.json["error"]["code"]) == (2, "usage")


def test_a_query_that_spells_an_option_behind_two_dashes_asks_for_no_json(amem, home):
    assert amem("search", "--", "--json").out == ""


@pytest.fixture
def search_raises(monkeypatch):
    def install(error):
        def fail(*arguments, **options):
            raise error

        monkeypatch.setattr(amem_core.session.Session, "search", fail)

    return install


def test_a_backend_that_is_down_is_an_error_and_says_that_trying_again_may_help(amem, notes, search_raises):
    search_raises(
        UnavailableError("solr at localhost:8983 does not answer", hint="start it; reading by id still works")
    )
    answer = amem("search", "x", "--json")
    assert answer.code == 1
    assert answer.json["error"]["retryable"] is True
    assert "does not answer" in answer.err


def test_corruption_is_an_alarm(amem, notes, search_raises):
    search_raises(CorruptionError("log notes, event 7: chain does not match", hint="run amem doctor"))
    assert amem("search", "x").code == 3


@pytest.mark.parametrize("error", [RuntimeError("surprise"), KeyError("x"), RecursionError(), ZeroDivisionError()])
def test_a_fault_of_ours_is_one_line_and_the_way_to_report_it(amem, notes, search_raises, error):
    search_raises(error)
    answer = amem("search", "x")
    assert answer.code == 1
    assert answer.err.startswith(f"amem: internal error: {type(error).__name__}")
    assert "--debug" in answer.err
    assert "Traceback" not in answer.err
    assert "Traceback" in amem("search", "x", "--debug").err


def test_the_environment_may_ask_for_tracebacks(amem, notes, monkeypatch):
    monkeypatch.setenv("AMEM_DEBUG", "1")
    assert "Traceback" in amem("get", "mem-unknown").err


def test_an_interrupt_is_130(amem, notes, search_raises):
    search_raises(KeyboardInterrupt())
    assert amem("search", "x").code == 130


def test_the_version_is_the_distributions(amem, home):
    assert amem("--version").out == f"amem {amem_core.__version__}\n"


def test_help_is_printed_for_every_command_and_teaches_by_example(amem, home):
    from amem_launcher.cli import TABLE

    assert amem("-h").out == amem("--help").out
    for name in TABLE:
        if name == "demo":
            continue
        assert name in amem("--help").out
        text = amem(name, "--help").out
        assert text.startswith(f"Usage: amem {name}")
        assert "Examples:" in text or "Commands:" in text


def run(arguments, root, **settings):
    environment = {**os.environ, "AMEM_ROOT": str(root), **settings.pop("env", {})}
    return subprocess.run(
        [*PROGRAM, *arguments], env=environment, capture_output=True, timeout=60, check=False, **settings
    )


def test_output_is_utf8_in_any_locale_and_plain_in_a_pipe(write, notes):
    write("Emoji 👩‍👩‍👧 用户", "In every locale.")
    for locale in (
        {"LC_ALL": "C"},
        {"PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ):
        done = run(["search", "locale"], notes, env=locale)
        assert done.returncode == 0, done.stderr
        assert "1. Emoji 👩‍👩‍👧 用户" in done.stdout.decode()
        assert b"\x1b" not in done.stdout


def test_arguments_that_are_no_utf8_are_refused(notes):
    done = run([b"search", b"caf\xe9"], notes)
    assert done.returncode == 2
    assert b"argument 2 is not valid UTF-8 at character 4" in done.stderr


def test_a_reader_that_goes_away_is_no_error(write, notes):
    id = write("Big", "Big.", "--body-file", "-", stdin="line\n" * 200_000)
    script = f'import sys; from amem_launcher.cli import main; sys.argv = ["amem", "get", "{id}"]; main()'
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "AMEM_ROOT": str(notes)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout.read(4) == b"Big\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def test_ctrl_c_ends_a_command_that_waits_without_a_traceback(notes):
    draft = ["write", "-d", "notes", "--type", "fact", "--title", "T", "--summary", "S", "--body-file", "-"]
    with subprocess.Popen(
        [*PROGRAM, *draft],
        env={**os.environ, "AMEM_ROOT": str(notes), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        # The command has read what is there, so it runs and waits for the rest.
        process.stdin.write(b"x" * (1 << 20))
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == b""
    assert b"Traceback" not in err
