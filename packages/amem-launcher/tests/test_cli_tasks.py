"""The ledger from the command line."""

import pytest


@pytest.fixture
def file(amem, notes):
    """File a task and return its id."""

    def call(title="Fix the build", *more):
        answer = amem("task", "create", "-d", "notes", "--title", title, "--summary", "It fails.", *more)
        assert answer.code == 0, answer.err
        return answer.out.strip()

    return call


def test_a_task_is_filed_claimed_and_completed_with_its_result(amem, file):
    id = file()
    claimed = amem("task", "claim-next")
    assert claimed.out == f"{id} 1\n"
    assert "Fix the build" in claimed.err
    done = amem("task", "complete", id, "--fence", "1", "--result-file", "-", stdin="Green again, zyzzyva.")
    assert done.code == 0
    assert "completed" in done.out
    task = amem("task", "show", id, "--json").json["task"]
    assert task["status"] == "completed"
    assert "zyzzyva" in amem("get", task["handoff"]).out


def test_nothing_ready_is_an_answer_and_no_error(amem, notes):
    answer = amem("task", "claim-next")
    assert (answer.code, answer.out) == (0, "")
    assert "no task is ready" in answer.err
    assert amem("task", "claim-next", "--json").json == {"tasks": []}


def test_what_comes_first_by_priority_is_claimed_first_and_several_at_once(amem, file):
    later, first = file("Later"), file("First", "--priority", "1")
    claimed = amem("task", "claim-next", "--limit", "2", "--lease", "2h", "--json").json["tasks"]
    assert [view["task"]["id"] for view in claimed] == [first, later]
    assert {view["task"]["fence"] for view in claimed} == {1}


def test_the_same_filing_twice_is_one_task(amem, file):
    origin = ("--origin", "github:acme/site#12", "--upstream-event", "opened")
    first = file("A", *origin)
    again = amem("task", "create", "-d", "notes", "--title", "B", "--summary", "S", *origin)
    assert again.out.strip() == first
    assert "filed before" in again.err


def test_a_worthless_fence_is_refused_with_who_holds_the_task(amem, file):
    id = file()
    amem("task", "claim", id)
    for step in ("heartbeat", "complete", "release"):
        for fence in ("0", "7", "100000000000000000000000000"):
            answer = amem("task", step, id, "--fence", fence)
            assert answer.code == 1
            assert "held by owner" in answer.err
    assert amem("task", "claim", id).code == 1


def test_a_lease_is_renewed_and_given_back_with_a_note(amem, file):
    id = file()
    amem("task", "claim", id, "--lease", "90s")
    before = amem("task", "show", id, "--json").json["task"]["lease_until"]
    renewed = amem("task", "heartbeat", id, "--fence", "1", "--lease", "1d12h", "--json").json
    assert renewed["lease_until"] > before
    released = amem("task", "release", id, "--fence", "1", "--note-file", "-", stdin="Blocked by review.")
    assert "ready" in released.out
    assert "the handoff is mem-" in released.err
    assert amem("task", "claim-next").out == f"{id} 2\n"


@pytest.mark.parametrize("lease", ["soon", "15", "", "-5m", "1.5h", "5 minutes", "99999999h"])
def test_a_length_of_time_without_sense_is_wrong_usage(amem, file, lease):
    answer = amem("task", "claim-next", "--lease", lease)
    assert answer.code == 2
    assert "hint:" in answer.err


@pytest.mark.parametrize("lease", ["0s", "8d", "999999d"])
def test_a_lease_out_of_range_is_refused(amem, file, lease):
    file()
    assert amem("task", "claim-next", "--lease", lease).code == 1


@pytest.mark.parametrize(
    "wrong", [("--priority", "-1"), ("--priority", "1001"), ("--origin", "nowhere"), ("--upstream-event", "alone")]
)
def test_a_filing_that_breaks_a_rule_is_refused(amem, notes, wrong):
    answer = amem("task", "create", "-d", "notes", "--title", "T", "--summary", "S", *wrong)
    assert answer.code == 1
    assert "hint:" in answer.err
    assert amem("task", "list", "--json").json["tasks"] == []


def test_tasks_are_listed_by_status_and_page(amem, file):
    ids = sorted(file(f"Task {number}") for number in range(3))
    amem("task", "claim", ids[0])
    assert [line.split()[0] for line in amem("task", "list").out.splitlines()] == ids
    assert ids[0] not in amem("task", "list", "--status", "ready").out
    page = amem("task", "list", "--limit", "2")
    assert f"amem task list --after {ids[1]}" in page.err
    assert amem("task", "list", "--after", ids[1]).out.split()[0] == ids[2]
    assert "no such task" in amem("task", "list", "--status", "completed").err


def test_a_tree_shows_what_came_of_a_task(amem, file):
    root = file("Root")
    child = file("Child", "--origin", f"task:{root}")
    file("Second", "--origin", f"continues:{root}")
    file("Grandchild", "--origin", f"task:{child}")
    lines = amem("task", "tree", root).out.splitlines()
    assert [line[:4] for line in lines] == ["mem-", "├─ m", "│  └", "└─ m"]
    assert amem("task", "tree", root, "--json").json["children"][0]["children"][0]["title"] == "Grandchild"
