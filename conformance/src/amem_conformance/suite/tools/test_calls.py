"""What a host of tools promises of a call."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from amem_conformance.harness import ToolsHarness
from amem_core.errors import InvalidError, NotFoundError, UnavailableError
from amem_core.ports.tools import Tools


@pytest.fixture
def host(backend: Tools, harness: ToolsHarness) -> Tools:
    harness.equip(backend)
    return backend


@pytest.mark.requirement("tools:names:sorted")
def test_every_tool_is_listed_in_order(host: Tools) -> None:
    assert host.names() == ["broken", "echo", "nonsense", "strict"]


@pytest.mark.requirement("tools:call:answer")
def test_a_call_answers_what_the_tool_answered(host: Tools) -> None:
    config = {"limit": 3, "on": False, "none": None}
    arguments = {"words": ["ä", "\U0001f600", ""], "nested": {"zero": 0, "float": 1.5}}
    assert host.call("echo", config, arguments).content == {"config": config, "arguments": arguments}
    assert list(host.call("echo", {}, {}).addresses) == []


@pytest.mark.requirement("tools:call:own-copy")
def test_changing_an_argument_later_does_not_change_the_answer(host: Tools) -> None:
    arguments: dict[str, Any] = {"list": [1]}
    answer = host.call("echo", {}, arguments)
    arguments["list"].append(2)
    assert answer.content["arguments"] == {"list": [1]}


@pytest.mark.requirement("tools:call:unknown")
@pytest.mark.parametrize("name", ["nothing", "", "ECHO", "../echo"])
def test_an_unknown_tool_is_not_found_and_named(host: Tools, name: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        host.call(name, {}, {})
    assert name in str(caught.value)


@pytest.mark.requirement("tools:call:refused")
def test_arguments_that_the_tool_does_not_take_are_invalid(host: Tools) -> None:
    with pytest.raises(InvalidError):
        host.call("strict", {}, {"anything": 1})


@pytest.mark.requirement("tools:call:no-json")
@pytest.mark.parametrize("value", [{1, 2}, b"bytes", float("nan"), object()])
def test_arguments_that_are_no_json_are_invalid(host: Tools, value: object) -> None:
    with pytest.raises(InvalidError):
        host.call("echo", {}, {"value": value})
    with pytest.raises(InvalidError):
        host.call("echo", {"value": value}, {})


@pytest.mark.requirement("tools:call:failure")
def test_a_tool_that_fails_is_unavailable_and_named(host: Tools) -> None:
    with pytest.raises(UnavailableError) as caught:
        host.call("broken", {}, {})
    assert "broken" in str(caught.value)


@pytest.mark.requirement("tools:answer:no-json")
def test_an_answer_that_is_no_json_is_unavailable(host: Tools) -> None:
    with pytest.raises(UnavailableError):
        host.call("nonsense", {}, {})


@pytest.mark.requirement("tools:threads:calls")
def test_threads_that_call_at_once_get_their_own_answers(host: Tools) -> None:
    wrong: list[object] = []

    def ask(number: int) -> None:
        for turn in range(50):
            answer = host.call("echo", {}, {"number": number, "turn": turn})
            if answer.content["arguments"] != {"number": number, "turn": turn}:
                wrong.append(answer)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.requirement("tools:close:idempotent")
def test_closing_again_does_nothing(backend: Tools) -> None:
    backend.close()
    backend.close()
