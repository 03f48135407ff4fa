"""What the owner's next start need not ask again, and when it asks all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from amem_core.domain.labels import Label
from amem_policy.config import RegoSettings
from amem_policy.rego import open_policy

OWNER = {
    "author": "owner",
    "kind": "owner",
    "destination": None,
    "domains": None,
    "label": "public",
    "ceiling": "public",
}
OPENED = {**OWNER, "ceiling": "restricted"}
GRANTS = 'format = 1\n[domains.notes]\nlabel = "internal"\nholders = ["owner"]\n'
ASK = """
import json, sys
from amem_policy.config import RegoSettings
from amem_policy.rego import open_policy
policy = open_policy(sys.argv[1], RegoSettings())
session = json.loads(sys.argv[2])
decision = policy.decide("session", {"session": session, "resource": {}})
readable = policy.read_filter({**session, "ceiling": decision.obligations.get("ceiling", "public")})
policy.close()
print(json.dumps({"allowed": decision.allowed, "version": decision.version,
    "readable": {name: str(label) for name, label in readable.domains.items()}, "engine": "regorus" in sys.modules}))
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "grants.toml").write_text(GRANTS)
    return tmp_path


def asked(root, session=OWNER):
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(root), json.dumps(session)], check=True, capture_output=True, text=True
    )
    answer = json.loads(done.stdout)
    kept = root / "state" / "policy.json"
    if kept.exists():
        # As if a while had passed since the grants changed.
        later = os.stat(kept).st_mtime_ns + 10**9
        os.utime(kept, ns=(later, later))
    return answer


def test_the_second_start_answers_the_same_without_the_engine(root):
    first, second = asked(root), asked(root)
    assert first["engine"]
    assert not second["engine"]
    assert {**first, "engine": False} == second
    assert second["readable"] == {"notes": "restricted"}


def test_an_agents_session_is_never_answered_from_memory(root):
    agent = {**OWNER, "author": "session:a", "kind": "agent", "destination": "model"}
    assert [asked(root, agent)["engine"] for _ in range(2)] == [True, True]


def test_changed_grants_are_asked_anew(root):
    asked(root)
    (root / "grants.toml").write_text(GRANTS.replace("notes", "other"))
    assert asked(root)["readable"] == {"other": "restricted"}


def test_a_policy_that_appears_is_asked(root):
    asked(root)
    (root / "policy").mkdir()
    answer = asked(root)
    assert answer["engine"]
    assert answer["allowed"] is False


def test_what_was_kept_right_after_a_change_is_not_trusted(root):
    asked(root)
    kept = root / "state" / "policy.json"
    changed = os.stat(root / "grants.toml").st_ctime_ns
    os.utime(kept, ns=(changed, changed))
    assert asked(root)["engine"]


@pytest.mark.parametrize("mode", [0o644, 0o620])
def test_what_others_could_have_written_or_read_is_not_trusted(root, mode):
    asked(root)
    (root / "state" / "policy.json").chmod(mode)
    assert asked(root)["engine"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', "\0"])
def test_a_damaged_memory_is_as_good_as_none(root, text):
    asked(root)
    kept = root / "state" / "policy.json"
    kept.write_text(text)
    assert asked(root)["readable"] == {"notes": "restricted"}


def test_a_link_in_its_place_is_not_followed(root, tmp_path):
    asked(root)
    kept = root / "state" / "policy.json"
    kept.rename(tmp_path / "elsewhere.json")
    kept.symlink_to(tmp_path / "elsewhere.json")
    assert asked(root)["engine"]


def test_grants_that_change_while_the_policy_is_open_are_not_kept_under_the_new_file(root):
    policy = open_policy(str(root), RegoSettings())
    assert policy.read_filter(OPENED).domains == {"notes": Label.restricted}
    (root / "grants.toml").write_text(GRANTS.replace("notes", "other"))
    policy.close()
    assert not (root / "state" / "policy.json").exists()
    assert asked(root)["readable"] == {"other": "restricted"}


def test_grants_that_are_taken_back_while_it_answers_from_memory_bind_the_next_question(root):
    asked(root)
    policy = open_policy(str(root), RegoSettings())
    assert policy.remembers()
    assert policy.read_filter(OPENED).domains == {"notes": Label.restricted}
    (root / "grants.toml").write_text("format = 1\n")
    assert policy.read_filter(OPENED).domains == {}


def test_a_root_that_takes_no_file_does_without(root):
    (root / "state").rmdir()
    assert asked(root)["readable"] == {"notes": "restricted"}
