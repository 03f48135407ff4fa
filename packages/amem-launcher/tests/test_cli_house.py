"""Roots, travelling and keeping house from the command line."""

import json
import os
import subprocess
import sys

import pytest

from amem_launcher.framework import THIRD_PARTY


def test_init_says_where_the_root_is_and_is_safe_to_repeat(amem, home):
    first = amem("init", "--domain", "notes")
    assert (first.code, first.out) == (0, f"{home / '.amem'}\n")
    assert "added the domain notes" in first.err
    again = amem("init", "--domain", "notes", "--json")
    assert again.json == {"root": str(home / ".amem"), "domain": "notes", "added": False}


def test_the_root_is_the_option_then_the_environment_then_the_nearest_then_the_home(amem, home, tmp_path, monkeypatch):
    def chosen(*arguments):
        return amem(*arguments, "init", "--domain", "d", "--json").json["root"]

    assert chosen() == str(home / ".amem")
    (home / "work" / ".amem").mkdir()
    deep = home / "work" / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert chosen() == str(home / "work" / ".amem")
    monkeypatch.setenv("AMEM_ROOT", str(tmp_path / "env"))
    assert chosen() == str(tmp_path / "env")
    assert chosen("--root", str(tmp_path / "option")) == str(tmp_path / "option")
    assert amem("init", "--domain", "d", "--json", "--root", "rel").json["root"] == str(deep / "rel")


def test_a_root_that_somebody_else_left_above_is_not_used_unasked(amem, home, monkeypatch):
    (home / "work" / ".amem").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    answer = amem("search", "x")
    assert answer.code == 1
    assert "belongs to another user" in answer.err


@pytest.mark.parametrize("root", ["", "  "])
def test_an_empty_root_is_refused(amem, home, root):
    answer = amem("--root", root, "search", "x")
    assert answer.code == 1
    assert "--root is empty" in answer.err


def test_a_missing_root_is_named_with_the_command_that_makes_it(amem, home):
    for command in (("search", "x"), ("get", "mem-1"), ("t0",), ("doctor",), ("task", "list"), ("reindex",)):
        answer = amem(*command)
        assert (answer.code, answer.out) == (1, "")
        assert f"{home / '.amem'} is no amem root" in answer.err
        assert "init --domain NAME" in answer.err


def test_a_bundle_travels_from_one_root_to_another(amem, write, home):
    id = write("Coding: Rules v1.2", "Use when: x # not a comment", "--alias", "*Italic*")
    exported = amem("export", "-d", "notes", "--to", "bundle")
    assert exported.code == 0
    assert "exported 1 entries" in exported.err
    assert amem("export", "-d", "notes", "--to", "bundle").code == 1
    assert amem("import", "bundle").code == 1
    amem("--root", "other", "init", "-d", "elsewhere")
    imported = amem("--root", "other", "import", "bundle", "--domain", "elsewhere")
    assert (imported.code, imported.out) == (0, f"{id}\n")
    entry = amem("--root", "other", "get", id, "--json").json["entry"]
    assert (entry["title"], entry["summary"], entry["aliases"]) == (
        "Coding: Rules v1.2",
        "Use when: x # not a comment",
        ["*Italic*"],
    )


def test_a_bundle_says_which_marks_it_has_and_a_dry_run_takes_none_in(amem, write):
    id = write("Wrong", "it is not so", "--label", "internal")
    write("Public", "for all", "--label", "public")
    amem("reject", id, "--reason", "it was never so")
    exported = amem("export", "-d", "notes", "--to", "bundle")
    assert "exported 2 entries of notes, up to internal, with 1 tombstones" in exported.err
    withheld = amem("export", "-d", "notes", "--to", "low", "--max-label", "public")
    assert "1 entries and 1 marks stand above public" in withheld.err
    amem("--root", "other", "init", "-d", "notes")
    looked = amem("--root", "other", "import", "bundle", "--dry-run")
    assert (looked.code, len(looked.out.split())) == (0, 2)
    assert "2 entries could be imported" in looked.err
    assert amem("--root", "other", "get", id).code == 1
    assert amem("--root", "other", "import", "bundle", "--json").json["tombstones"] == 1
    refused = amem(
        "--root", "other", "write", "-d", "notes", "--type", "fact", "--title", "WRONG", "--summary", "it is not  so"
    )
    assert refused.code == 1
    assert "it was never so" in refused.err


def test_what_stands_above_the_label_stays(amem, write):
    write("Open", "For all.", "--label", "internal")
    write("Closed", "For few.", "--label", "confidential")
    answer = amem("export", "-d", "notes", "--to", "bundle", "--max-label", "internal", "--json")
    assert (answer.json["entries"], answer.json["withheld"]) == (1, 1)


def test_a_folder_is_ingested_and_again_without_a_change(amem, notes, home):
    docs = home / "work" / "docs"
    docs.mkdir()
    (docs / "a.md").write_bytes(b"\xef\xbb\xbf# Walrus\r\n\r\nIt has tusks.\r\n")
    (docs / "b.md").write_text("# Otter\n\nIt has whiskers.\n")
    planned = amem("ingest", "docs", "-d", "notes", "--dry-run")
    assert "would be written 2" in planned.out
    assert amem("search", "tusks", "--json").json["hits"] == []
    first = amem("ingest", "docs", "-d", "notes", "--json").json
    assert (first["files"], first["written"]) == (2, 2)
    again = amem("ingest", "docs", "-d", "notes", "--json").json
    assert (again["written"], again["changed"], again["unchanged"]) == (0, 0, 2)
    assert len(amem("search", "tusks", "--json").json["hits"]) == 1


def test_a_file_that_cannot_be_read_is_reported_and_stops_no_other(amem, notes, home):
    docs = home / "work" / "docs"
    docs.mkdir()
    (docs / "bad.md").write_bytes(b"\xff\xfe\x00caf\xe9")
    (docs / "good.md").write_text("# Otter\n\nIt has whiskers.\n")
    answer = amem("ingest", "docs", "-d", "notes")
    assert answer.code == 1
    assert "broken: " in answer.err
    assert "bad.md" in answer.err
    assert len(amem("search", "whiskers", "--json").json["hits"]) == 1


def test_reindex_reports_what_cannot_be_read_and_serves_the_rest(amem, write, notes):
    id = write("Kept", "It stays.")
    bad = notes / "record" / "notes" / "mem-broken.md"
    bad.write_text("---\ntitle: a: b\n---\nbody\n")
    answer = amem("reindex", "-d", "notes")
    assert answer.code == 0
    assert "mem-broken.md" in answer.err
    assert bad.read_text() == "---\ntitle: a: b\n---\nbody\n"
    assert amem("search", "stays", "--json").json["hits"][0]["id"] == id


def test_doctor_is_content_with_a_whole_root_and_alarmed_by_a_damaged_one(amem, write, notes):
    write()
    whole = amem("doctor")
    assert whole.code == 0
    assert "0 alarms" in whole.err
    (notes / "amem.toml").write_text("colour = 1\n")
    damaged = amem("doctor")
    assert damaged.code == 3
    assert "amem.toml" in damaged.out
    document = amem("doctor", "--json")
    assert (document.code, document.json["state"]) == (3, "alarm")
    assert amem("search", "x").code == 1


def test_a_log_damaged_in_the_middle_is_an_alarm(amem, write, notes):
    for number in range(3):
        write(f"T{number}")
    path = notes / "state" / "log" / "notes.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1].replace(b"owner", b"0wner"), *lines[2:]]))
    assert amem("doctor").code == 3


def test_erasing_asks_for_yes_where_nobody_can_answer(amem, write):
    id = write("Secret zyzzyva", "To be erased.")
    asked = amem("erase", id, "--reason", "requested")
    assert asked.code == 2
    assert "--yes" in asked.err
    assert amem("get", id).code == 0
    erased = amem("erase", id, "--reason", "requested", "--yes")
    assert erased.code == 0
    assert ".erasures" in erased.out
    assert amem("get", id).code == 1
    assert amem("search", "zyzzyva", "--json").json["hits"] == []
    assert amem("erase", id, "--reason", "whim", "--yes").code == 2
    assert amem("erase", "mem-unknown", "--reason", "legal", "--yes").code == 1


def test_plugins_lists_backends_and_says_why_one_does_not_answer(amem, notes):
    assert "index.sqlite" in amem("plugins").out
    backends = {found["key"]: found for found in amem("plugins", "--json").json["backends"]}
    assert backends["store.files"]["problem"] == ""


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """Install a distribution with commands of its own."""

    def install(name, commands, code):
        info = tmp_path / "site" / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        points = "\n".join(f"{command} = {name}:{target}" for command, target in commands.items())
        (info / "entry_points.txt").write_text(f"[{THIRD_PARTY}]\n{points}\n")
        (tmp_path / "site" / f"{name}.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path / "site")
        monkeypatch.delitem(sys.modules, name, raising=False)

    return install


GREETING = "import click\n\n@click.command()\ndef greet():\n    click.echo('hello')\n"


def test_a_command_of_another_distribution_answers_and_is_listed(amem, notes, stranger):
    stranger("amem_greeting", {"greet": "greet", "search": "greet"}, GREETING)
    assert amem("greet").out == "hello\n"
    assert "greet" not in amem("--help").out
    listed = {extra["name"]: extra["problem"] for extra in amem("plugins", "--json").json["commands"]}
    assert listed["greet"] == ""
    assert "amem's own command" in listed["search"]


def test_a_command_that_does_not_load_is_one_error_that_names_its_distribution(amem, notes, stranger):
    stranger("amem_ruin", {"ruin": "missing", "text": "text"}, "text = 'no command'\n")
    for name in ("ruin", "text"):
        answer = amem(name)
        assert answer.code == 1
        assert "amem-ruin" in answer.err or "amem_ruin" in answer.err
        assert "Traceback" not in answer.err
    assert amem("search", "x").code == 0


def test_two_distributions_with_one_command_are_refused(amem, notes, stranger):
    stranger("amem_one", {"twin": "greet"}, GREETING)
    stranger("amem_two", {"twin": "greet"}, GREETING)
    answer = amem("twin")
    assert answer.code == 1
    assert "2 installed distributions bring a command 'twin'" in answer.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_completion_script(amem, home, shell):
    answer = amem("completion", shell)
    assert answer.code == 0
    assert "_AMEM_COMPLETE" in answer.out
    assert amem("completion", "tcsh").code == 2


def complete(amem, monkeypatch, words):
    monkeypatch.setenv("_AMEM_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    return [line.partition(",")[2] for line in amem().out.splitlines() if line]


def test_commands_options_domains_and_ids_are_completed(amem, write, monkeypatch):
    id = write()
    assert complete(amem, monkeypatch, "amem se") == ["search", "serve"]
    assert "claim-next" in complete(amem, monkeypatch, "amem task cl")
    assert "--depth" in complete(amem, monkeypatch, "amem search --de")
    assert complete(amem, monkeypatch, "amem search x --domain no") == ["notes"]
    assert complete(amem, monkeypatch, "amem get mem-") == [id]
    assert complete(amem, monkeypatch, "amem --root nowhere get mem-") == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--http", "8420"), "HOST:PORT"),
        (("--http", "localhost:99999"), "HOST:PORT"),
        (("--token-env", "AMEM_TOKEN"), "--token-env goes with --http"),
        (("--allowed-host", "memory.example"), "--allowed-host goes with --http"),
        (("--http", "127.0.0.1:0", "--token-env", "AMEM_NO_SUCH"), "no such variable"),
    ],
)
def test_serving_with_wrong_words_is_wrong_usage(amem, notes, arguments, says):
    answer = amem("serve", *arguments)
    assert answer.code == 2
    assert says in answer.err


def test_serving_speaks_the_protocol_on_standard_output_and_nothing_else(notes):
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    with subprocess.Popen(
        [sys.executable, "-m", "amem_launcher", "serve", "--root", str(notes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        rest, messages = process.communicate(timeout=60)
    assert (process.returncode, rest) == (0, ""), messages
    assert json.loads(answer)["result"]["serverInfo"]["name"] == "amem"
