"""Correcting from the command line: what turned out wrong stays out, and what was checked says so."""

import pytest

WRONG = "The staging box listens on port 8080, behind the proxy."


def test_a_rejected_value_is_refused_with_its_reason_until_it_is_lifted(amem, write):
    id = write("Port", WRONG)
    rejected = amem("reject", id, "--reason", "that was the old box")
    assert (rejected.code, rejected.out.strip()) == (0, id)
    assert f"amem lift {id}" in rejected.err
    again = ("write", "-d", "notes", "--type", "fact", "--title", "Where", "--summary", WRONG.upper())
    refused = amem(*again)
    assert refused.code == 1
    assert "that was the old box" in refused.err
    assert f"amem lift {id} --reason" in refused.err
    shown = amem("get", id)
    assert "by owner, that was the old box" in shown.out
    lifted = amem("lift", id, "--reason", "it does after all", "--json")
    assert lifted.json["status"] == "active"
    assert amem(*again).code == 0
    assert "it does after all" in amem("get", id).out


def test_rejecting_answers_what_is_due_for_review_as_json(amem, write):
    id = write("Port", WRONG)
    other = write("Where it listens", WRONG.upper())
    done = amem("reject", id, "--reason", "no", "--json").json
    assert (done["id"], done["version"], done["flagged"]) == (id, 2, [other])
    assert len(done["values"]) == 2


def test_a_verification_is_shown_with_who_what_and_when(amem, write):
    id = write("Port", WRONG)
    given = ("--oracle", "ci", "--evidence", "run 4412 is green")
    done = amem("verify", id, *given, "--by", "the pipeline", "--json").json
    assert (done["oracle"], done["by"], done["verifications"]) == ("ci", "the pipeline", 1)
    assert amem("verify", id, *given, "--by", "the pipeline").code == 0
    shown = amem("get", id)
    assert shown.out.count("by the pipeline, ci: run 4412 is green") == 2
    assert "verified" in shown.out


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("reject", "ID"), 2, "--reason"),
        (("reject", "ID", "--reason", " "), 1, "reason"),
        (("reject", "mem-unknown", "--reason", "no"), 1, "mem-unknown"),
        (("lift", "ID", "--reason", "no"), 1, "not rejected"),
        (("lift", "mem-unknown", "--reason", "no"), 1, "mem-unknown"),
        (("verify", "ID", "--oracle", "vibes", "--evidence", "x", "--by", "y"), 2, "vibes"),
        (("verify", "ID", "--oracle", "ci", "--evidence", "", "--by", "y"), 1, "evidence"),
        (("verify", "ID", "--oracle", "ci", "--evidence", "x", "--by", "owner"), 1, "asserted"),
        (("verify", "ID", "--oracle", "ci", "--evidence", "x", "--by", "session:x"), 1, "agent"),
    ],
)
def test_a_correction_that_is_refused_says_why_and_changes_nothing(amem, write, arguments, code, told):
    id = write("Port", WRONG)
    refused = amem(*(id if argument == "ID" else argument for argument in arguments))
    assert (refused.code, refused.out) == (code, "")
    assert told in refused.err
    assert "Traceback" not in refused.err
    assert amem("get", id, "--json").json["entry"]["version"] == 1


def test_a_reason_cannot_take_over_the_terminal(amem, write):
    id = write("Port", WRONG)
    amem("reject", id, "--reason", "no\x1b[2J\x1b[31m\rfine")
    for shown in (
        amem("get", id),
        amem("write", "-d", "notes", "--type", "fact", "--title", "Where", "--summary", WRONG),
    ):
        assert "\x1b" not in shown.out + shown.err
        assert "\r" not in shown.out + shown.err
