"""The Rego backend: whatever the text or the engine does, what is not clearly allowed is denied."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from amem_core.domain.queries import CLOSED
from amem_core.errors import ConfigError, UnavailableError
from amem_policy import engine
from amem_policy.config import RegoSettings
from amem_policy.grants import add_domain
from amem_policy.plugins.rego import amem_backends
from amem_policy.rego import RegoPolicy, open_policy

SESSION = {
    "author": "session:one",
    "kind": "agent",
    "destination": "model",
    "domains": None,
    "label": "public",
    "ceiling": "internal",
}
ENTRY = {"id": "mem-1", "domain": "notes", "label": "internal", "status": "active", "type": "fact"}
READ = {"session": SESSION, "resource": ENTRY}
ALLOW = (
    'package amem\nimport rego.v1\ndecision := {"allow": true, "reasons": [], "rules": ["mine"], "obligations": {}}\n'
)

Open = Callable[..., RegoPolicy]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    add_domain(str(tmp_path / "grants.toml"), "notes")
    return tmp_path


@pytest.fixture
def opened(root: Path) -> Open:
    def with_policy(text: str | None = None) -> RegoPolicy:
        if text is not None:
            (root / "policy").mkdir(exist_ok=True)
            (root / "policy" / "mine.rego").write_text(text)
        return open_policy(str(root), RegoSettings())

    return with_policy


def rule(text: str) -> str:
    return f"package amem\nimport rego.v1\n{text}\n"


def test_a_policy_of_the_root_replaces_the_built_in_one(opened: Open) -> None:
    built_in = opened()
    mine = opened(ALLOW)
    assert mine.decide("fly", READ).rules == ("mine",)
    assert not built_in.decide("fly", READ).allowed
    assert mine.version != built_in.version


def test_a_policy_of_the_root_may_be_in_several_files(root: Path, opened: Open) -> None:
    (root / "policy").mkdir()
    (root / "policy" / "a.rego").write_text(ALLOW.replace("true", "good"))
    policy = opened(rule('good := input.action == "read"\nread_filter := {"notes": "public"}'))
    assert policy.decide("read", READ).allowed
    assert not policy.decide("erase", READ).allowed
    assert {name: str(label) for name, label in policy.read_filter(SESSION).domains.items()} == {"notes": "public"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("other := 1", "valid rule path"),
        ("decision := {} if input.nothing", "undefined"),
        ('decision := {"allow": true} if strings.count("a", "") > 0', "panic"),
        ("decision := 1 / 0", "divide by zero"),
        ("decision := 1 if true\ndecision := 2 if true", "conflicts"),
        ("decision := nowhere", "nowhere"),
        ("decision := true", "no object"),
        ("decision := null", "no object"),
        ("decision := [true]", "no object"),
        ('decision := "<undefined>"', "undefined"),
        ("decision := {}", "no allow"),
        ('decision := {"allow": 1, "reasons": [], "rules": [], "obligations": {}}', "no allow"),
        ('decision := {"allow": "true", "reasons": [], "rules": [], "obligations": {}}', "no allow"),
        ('decision := {"allow": null, "reasons": [], "rules": [], "obligations": {}}', "no allow"),
        ('decision := {"allow": true, "rules": [], "obligations": {}}', "no reasons"),
        ('decision := {"allow": true, "reasons": "because", "rules": [], "obligations": {}}', "no reasons"),
        ('decision := {"allow": true, "reasons": [1], "rules": [], "obligations": {}}', "no reasons"),
        ('decision := {"allow": true, "reasons": [], "rules": {}, "obligations": {}}', "no rules"),
        ('decision := {"allow": true, "reasons": [], "rules": []}', "obligations"),
        ('decision := {"allow": true, "reasons": [], "rules": [], "obligations": []}', "obligations"),
        ('decision := {"allow": true, "reasons": [], "rules": [], "obligations": {"label": "x"}}', "obligation label"),
        ('decision := {"allow": true, "reasons": [], "rules": [], "obligations": {"label": 0}}', "obligation label"),
    ],
)
def test_a_policy_that_gives_no_clear_answer_denies_and_says_which(opened: Open, text: str, words: str) -> None:
    policy = opened(rule(text))
    for _ in range(2):
        decision = policy.decide("read", READ)
        assert not decision.allowed
        assert words in decision.reasons[0]
        assert "backtrace" not in decision.reasons[0].lower()
        assert decision.rules == ("policy-failed",)
        assert not decision.obligations


@pytest.mark.parametrize("action", ["session", "write", "file_task", "export"])
def test_an_allowed_action_without_what_it_owes_is_denied(opened: Open, action: str) -> None:
    decision = opened(ALLOW).decide(action, READ)
    assert not decision.allowed
    assert f"allows {action} and says no" in decision.reasons[0]


def test_a_refusal_without_a_reason_is_given_one_and_its_obligations_are_dropped(opened: Open) -> None:
    text = ALLOW.replace("true", "false").replace("{}}", '{"label": "public"}}')
    decision = opened(text).decide("write", READ)
    assert not decision.allowed
    assert decision.reasons
    assert not decision.obligations


@pytest.mark.parametrize(
    "text",
    [
        "other := 1",
        "read_filter := {} if input.nothing",
        'read_filter := {"notes": "all"}',
        'read_filter := {"notes": 3}',
        'read_filter := {"notes": null, "other": "public"}',
        'read_filter := ["notes"]',
        'read_filter := {"notes": "public"} if strings.count("a", "") > 0',
    ],
)
def test_a_read_filter_that_is_not_clear_opens_nothing(opened: Open, text: str) -> None:
    assert opened(rule(text)).read_filter(SESSION) is CLOSED


def test_after_a_panic_the_engine_still_decides(opened: Open) -> None:
    text = ALLOW + 'decision := {"allow": true} if { input.action == "boom"; strings.count("a", "") > 0 }\n'
    policy = opened(text)
    assert policy.decide("read", READ).allowed
    assert not policy.decide("boom", READ).allowed
    assert policy.decide("read", {**READ, "session": {}}).allowed


def test_false_null_and_zero_reach_the_policy_as_they_are(opened: Open) -> None:
    policy = opened(
        ALLOW.replace('["mine"]', '[sprintf("%v %v", [type_name(input.resource.flag), input.resource.flag])]')
    )
    seen = [
        policy.decide("read", {"session": {}, "resource": {"flag": flag}}).rules[0]
        for flag in (False, 0, None, "", True, 1)
    ]
    assert seen == ["boolean false", "number 0", "null null", "string ", "boolean true", "number 1"]


def test_the_bundle_of_nothing_denies_everything(root: Path, opened: Open) -> None:
    (root / "policy").mkdir()
    (root / "policy" / "README.md").write_text("moved")
    policy = opened()
    assert not policy.decide("read", READ).allowed
    assert "empty" in policy.decide("read", READ).reasons[0]
    assert policy.read_filter(SESSION) is CLOSED


@pytest.mark.parametrize("text", ["", "package amem\nallow {", "nonsense", "package amem\nx := 1e400"])
def test_a_policy_that_is_no_rego_is_refused_at_opening(opened: Open, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        opened(text)
    assert os.path.join("policy", "mine.rego") in str(caught.value)


def test_a_policy_that_is_no_text_is_refused_at_opening(root: Path, opened: Open) -> None:
    (root / "policy").mkdir()
    (root / "policy" / "mine.rego").write_bytes(b"package amem\n\xff")
    with pytest.raises(ConfigError):
        opened()


def test_a_policy_of_another_package_denies(opened: Open) -> None:
    assert not opened(ALLOW.replace("package amem", "package other")).decide("read", READ).allowed


@pytest.mark.parametrize("bundle", ["", "/etc", "../policy", "a/../../b"])
def test_a_bundle_outside_the_root_is_refused(root: Path, bundle: str) -> None:
    with pytest.raises(ConfigError):
        open_policy(str(root), RegoSettings(bundle=bundle))


def test_a_policy_that_cannot_be_read_is_an_error_and_not_the_built_in_one(root: Path) -> None:
    (root / "policy").write_text("a file where a directory should be")
    with pytest.raises(UnavailableError) as caught:
        open_policy(str(root), RegoSettings())
    assert str(root / "policy") in str(caught.value)


def test_grants_that_cannot_be_read_any_more_deny(root: Path, opened: Open) -> None:
    policy = opened()
    assert policy.decide("read", READ).allowed
    (root / "grants.toml").unlink()
    (root / "grants.toml").mkdir()
    decision = policy.decide("read", READ)
    assert not decision.allowed
    assert "grants.toml cannot be read" in decision.reasons[0]
    with pytest.raises(UnavailableError):
        opened()


def test_an_input_of_mappings_that_are_no_dicts_is_decided_alike(opened: Open) -> None:
    policy = opened()
    wrapped = MappingProxyType({"session": MappingProxyType(SESSION), "resource": MappingProxyType(ENTRY)})
    assert policy.decide("read", wrapped) == policy.decide("read", READ)


def test_decisions_are_remembered_until_the_grants_change(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    real = engine.evaluate

    def counting(*arguments: Any) -> Any:
        asked.append(arguments)
        return real(*arguments)

    monkeypatch.setattr("amem_policy.state.evaluate", counting)
    policy = opened()
    for _ in range(10):
        policy.decide("read", {"session": dict(SESSION), "resource": dict(ENTRY)})
    assert len(asked) == 1
    policy.decide("read", {"session": dict(SESSION), "resource": {**ENTRY, "label": "public"}})
    policy.decide("claim", READ)
    assert len(asked) == 3
    add_domain(str(root / "grants.toml"), "more")
    policy.decide("read", READ)
    assert len(asked) == 4


def test_what_a_caller_does_to_a_decision_does_not_reach_the_next(opened: Open) -> None:
    policy = opened()
    opening = {"session": SESSION, "resource": {}}
    with pytest.raises(TypeError):
        policy.decide("session", opening).obligations["ceiling"] = "restricted"  # type: ignore[index]
    assert policy.decide("session", opening).obligations == {"ceiling": "internal"}


def test_one_thread_parses_a_policy_once_and_a_search_not_all_of_it(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[tuple[str, ...]] = []
    real = engine.parse

    def counting(made: Any, bundle: Any, count: int) -> Any:
        parsed.append(tuple(name for name, _ in bundle.modules[:count]))
        return real(made, bundle, count)

    monkeypatch.setattr(engine, "parse", counting)

    def run() -> None:
        policy = opened()
        policy.decide("session", {"session": SESSION, "resource": {}})
        policy.read_filter(SESSION)
        for number in range(20):
            policy.decide("read", {"session": SESSION, "resource": {**ENTRY, "id": f"mem-{number}"}})
        assert parsed == [("amem.rego",)]
        for number in range(20):
            policy.decide("write", {"session": SESSION, "resource": {"domain": "notes", "type": f"t{number}"}})
            add_domain(str(root / "grants.toml"), f"d{number}")
        opened().decide("write", READ)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert parsed == [("amem.rego",), ("amem.rego", "changes.rego")]


def test_two_roots_in_one_thread_keep_their_own_grants(tmp_path: Path) -> None:
    policies: dict[str, RegoPolicy] = {}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        add_domain(str(tmp_path / name / "grants.toml"), name)
        policies[name] = open_policy(str(tmp_path / name), RegoSettings())
    for turn in range(3):
        for name, policy in policies.items():
            for domain in policies:
                resource = {**ENTRY, "domain": domain, "id": f"mem-{turn}"}
                assert policy.decide("read", {"session": SESSION, "resource": resource}).allowed is (domain == name)


def test_an_engine_is_never_used_or_dropped_in_a_foreign_thread(opened: Open) -> None:
    # An engine that is dropped elsewhere is an unraisable error, which the test run turns into a failure.
    made: list[RegoPolicy] = []

    def make() -> None:
        policy = opened()
        policy.decide("read", READ)
        made.append(policy)

    for _ in range(6):
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
    assert all(policy.decide("read", READ).allowed for policy in made)
    made.clear()
    gc.collect()


def test_an_error_that_is_kept_keeps_no_engine(opened: Open) -> None:
    with pytest.raises(ConfigError) as caught:
        opened("package amem\nbroken {")
    panicking = opened(rule('decision := {"allow": true} if strings.count("a", "") > 0'))
    with pytest.raises(engine.EngineFailure) as failed:
        engine.evaluate(panicking._bundle, ("v", "{}"), "decision", "read", "{}")
    seen: list[object] = []
    for info in (caught, failed):
        error: BaseException | None = info.value
        while error is not None:
            trace = error.__traceback__
            while trace is not None:
                seen += trace.tb_frame.f_locals.values()
                trace = trace.tb_next
            error = error.__cause__ or error.__context__
    assert not [found for found in seen if isinstance(found, engine.regorus.Engine | engine._Slot)]


def test_an_interrupt_is_not_taken_for_a_denial(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def set_input_json(self, text: str) -> None:
            raise KeyboardInterrupt

        def clear_data(self) -> None: ...

        def add_data_json(self, text: str) -> None: ...

    policy = opened()
    policy.decide("read", {})
    slots = engine._slots()
    monkeypatch.setattr(engine, "_slots", lambda: dict.fromkeys(slots, engine._Slot(Interrupted())))
    with pytest.raises(KeyboardInterrupt):
        policy.decide("read", READ)


def test_the_plugin_and_the_settings_load_no_engine() -> None:
    code = (
        "import sys; import amem_policy.plugins.rego, amem_policy.config;"
        "heavy = {'regorus', 'tomllib', 'pathlib', 'pydantic'} & set(sys.modules) - before;"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; before = set(sys.modules); {code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_opening_and_deciding_loads_nothing_heavy(root: Path) -> None:
    code = f"""
import sys
before = set(sys.modules)
from amem_policy.config import RegoSettings
from amem_policy.rego import open_policy
policy = open_policy({str(root)!r}, RegoSettings())
assert policy.decide("read", {READ!r}).allowed
heavy = {{
    "pathlib", "logging", "tempfile", "subprocess", "importlib.metadata", "pydantic", "pluggy", "yaml", "asyncio",
    "urllib", "shutil", "concurrent.futures", "uuid", "random", "statistics", "fcntl",
    "amem_policy.editing", "amem_policy.lines",
}}
sys.exit(", ".join(sorted(heavy & (set(sys.modules) - before))) or 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_plugin_names_what_it_brings() -> None:
    (spec,) = amem_backends()
    assert (spec.port, spec.name, spec.factory) == ("policy", "rego", "amem_policy.rego:open_policy")
