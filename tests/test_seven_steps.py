"""The main job in seven steps, driven from outside: the installed command, and agents that speak MCP to its server."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest
from driving import agent, amem, environment, program

from amem_core import Draft, Label, Memory, Tier
from amem_core.domain.plain import plain
from amem_core.services.tokens import count_tokens
from amem_core.system import SystemClock
from amem_core.testing import FrozenClock

REPOSITORY = Path(__file__).parents[1]
MARKDOWN = ["README.md", "AGENTS.md", "CONTRIBUTING.md"]
SQLITE = b"SQLite format 3\x00"
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def material(tmp_path):
    """Real Markdown: what this repository says of itself."""
    folder = tmp_path / "material"
    folder.mkdir()
    for name in MARKDOWN:
        shutil.copy(REPOSITORY / name, folder)
    return folder


def record(root):
    """Return every file of the record and of the log with its bytes: what a refusal must leave alone."""
    kept = [path for part in ("record", "state/log") for path in sorted(Path(root, part).rglob("*")) if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in kept}


def delete_sqlite(root):
    doomed = [path for path in Path(root).rglob("*") if path.is_file() and path.read_bytes()[:16] == SQLITE]
    for path in doomed:
        for beside in path.parent.glob(f"{path.name}*"):
            beside.unlink()
    return {path.name for path in doomed}


# 1. init creates a domain with a grants file


def test_init_makes_a_domain_with_a_grants_file_that_only_its_owner_reads(tmp_path):
    root = tmp_path / "root"
    assert amem("init", "--domain", "lab", root=root).out.strip() == str(root)
    grants = root / "grants.toml"
    assert tomllib.loads(grants.read_text())["domains"] == {"lab": {"label": "internal", "holders": ["owner"]}}
    assert stat.S_IMODE(grants.stat().st_mode) == 0o600
    amem("doctor", root=root)


def test_init_of_a_domain_that_is_there_changes_nothing_and_of_another_adds_it(tmp_path):
    root = tmp_path / "root"
    amem("init", "--domain", "lab", root=root)
    before = (root / "grants.toml").read_bytes()
    assert amem("init", "--domain", "lab", "--json", root=root).json["added"] is False
    assert (root / "grants.toml").read_bytes() == before
    amem("init", "--domain", "shop", "--label", "confidential", root=root)
    assert (root / "grants.toml").read_bytes().startswith(before)
    assert set(tomllib.loads((root / "grants.toml").read_text())["domains"]) == {"lab", "shop"}


# 2. a session writes a handoff and a decision over MCP; 3. a fresh one loads T0, finds the handoff and continues


async def test_what_one_session_hands_over_a_fresh_one_finds_in_t0_and_carries_on(root):
    async with agent(root) as one:
        decision = await one.do(
            "write", type="decision", title="Use SQLite", summary="SQLite until two machines write.", body="Because."
        )
        handoff = await one.do(
            "write",
            type="handoff",
            title="The parser is half done",
            summary="Headings are parsed, tables are open.",
            body="Next: tables. Start at parse_row; the test that fails is named test_a_table_has_rows.",
            derived_from=[decision["id"]],
        )
    assert decision["version"] == handoff["version"] == 1
    assert (Path(root) / "record" / "notes" / f"{handoff['id']}.md").is_file()

    async with agent(root) as two:
        text = await two.t0()
        first = await two.do("t0")
        assert first["text"] == text
        assert first["handoffs"] == [handoff["id"]]
        assert first["decisions"] == [decision["id"]]
        assert "The parser is half done: Headings are parsed, tables are open." in text
        assert "Use SQLite: SQLite until two machines write." in text
        assert count_tokens(text) < 2_000
        read = await two.do("get", id=handoff["id"])
        assert "Start at parse_row" in read["text"]
        done = await two.do(
            "write", type="handoff", title="The parser is done", summary="Tables too.", supersedes=[handoff["id"]]
        )
        assert (await two.do("t0"))["handoffs"] == [done["id"]]
        mine = await two.do("get", id=done["id"])
    assert read["author"].startswith("session:")
    assert mine["author"].startswith("session:")
    assert read["author"] != mine["author"]


async def test_t0_stays_under_its_limits_and_says_what_was_cut_however_much_there_is(root, owner, clock):
    for number in range(120):
        clock.advance(seconds=1)
        drafts = [
            Draft(domain="notes", type=kind, title=f"{kind} {number} 手紙", summary="It stands alone. " * 20)
            for kind in ("handoff", "decision", "reference")
        ]
        newest = owner.write_many(drafts)[0].id
    async with agent(root) as fresh:
        text = await fresh.t0()
        shown = await fresh.do("t0")
    assert count_tokens(text) < 2_000
    assert len(text) <= 8_000
    assert shown["handoffs"][0] == newest
    assert shown["cut"] > 0
    assert f"{shown['cut']} more did not fit" in text


# 4. search ranks by BM25 and returns summaries first, get returns one body


def plant(owner, *bodies, **fields):
    """Write the bodies among enough others that no word of theirs is common; return their ids."""
    filler = [f"Nothing of interest in paragraph {number}, which is here to be passed over." for number in range(30)]
    drafts = [
        Draft(domain="notes", type="fact", title=f"Item {place}", summary="An item.", body=body, **fields)
        for place, body in enumerate([*bodies, *filler])
    ]
    return [done.id for done in owner.write_many(drafts)[: len(bodies)]]


def order(root, query):
    return [hit["id"] for hit in amem("search", query, "--limit", 100, "--json", root=root).json["hits"]]


def test_search_ranks_by_how_often_a_word_stands_in_how_long_a_text_and_how_rare_it_is(root, owner):
    pad = " and so on, without an end in sight" * 20
    often, once, long, common, rare = plant(
        owner,
        "walrus walrus walrus at the shore today",
        "one walrus at the shore in the sun today",
        f"one walrus at the shore in the sun today{pad}",
        "an otter at the river in the sun today",
        "a heron at the river in the sun today",
    )
    plant(owner, *["an otter was seen at the river"] * 1, *[f"an otter was seen, number {n}" for n in range(12)])
    assert order(root, "walrus") == [often, once, long]
    both = order(root, "otter heron")
    assert both.index(rare) < both.index(common)


def test_search_ranks_a_title_above_a_body(root, owner):
    (body,) = plant(owner, "The narwhal is mentioned here and nowhere else in the text.")
    title = owner.write(Draft(domain="notes", type="fact", title="The narwhal", summary="An item.", body="Text.")).id
    assert order(root, "narwhal") == [title, body]


async def test_search_shows_summaries_without_bodies_and_get_returns_one_body(root, material):
    amem("ingest", material, "--domain", "notes", root=root)
    async with agent(root) as one:
        asked = {"query": "how is the repository checked", "limit": 5}
        found = await one.client.call_tool("search", asked)
        ids = [hit["id"] for hit in found.structured_content["hits"]]
        assert 1 <= len(ids) <= 5
        best = ids[0]
        read = await one.do("get", id=best)
    whole = amem("get", best, "--json", root=root).json["entry"]
    assert whole["body"].strip() in read["text"]
    shown = found.content[0].text
    for id in ids:
        entry = amem("get", id, "--json", root=root).json["entry"]
        assert entry["summary"] in shown
        assert entry["body"].strip() not in shown
        assert (f"id={id} " in read["text"]) == (id == best)


# 5. a task is created, claimed with a lease, heartbeaten and completed


async def test_a_task_has_one_holder_who_keeps_it_alive_and_completes_it(root):
    async with agent(root) as one, agent(root) as two:
        task = (await one.do("create_task", title="Sum up", summary="One page."))["id"]
        held = await one.do("claim", id=task, lease_seconds=300)
        code, words = await two.refused("claim", id=task)
        assert code == "conflict"
        assert held["holder"] in words
        assert held["lease_until"] in words
        assert (await two.do("claim_next"))["tasks"] == []
        renewed = await one.do("heartbeat", id=task, fence=held["fence"], lease_seconds=900)
        assert renewed["lease_until"] > held["lease_until"]
        done = await one.do("complete", id=task, fence=held["fence"], result="Here is the page.")
        assert done["status"] == "completed"
        assert "Here is the page." in (await two.do("get", id=done["handoff"]))["text"]
        for tool in ("complete", "release", "heartbeat"):
            assert (await one.refused(tool, id=task, fence=held["fence"]))[0] == "conflict"
        assert (await two.refused("claim", id=task))[0] == "conflict"
    assert amem("task", "show", task, "--json", root=root).json["task"]["status"] == "completed"


async def test_an_expired_lease_returns_the_task_and_who_lost_it_can_write_nothing_more(root):
    async with agent(root) as one:
        task = (await one.do("create_task", title="Check the links", summary="All of them."))["id"]
        held = await one.do("claim", id=task, lease_seconds=60)
        clock = FrozenClock(SystemClock().now())
        with Memory.open(root, clock=clock) as memory, memory.session() as other:
            assert other.task(task).task.status == "claimed"
            assert other.claim_next() == []
            clock.advance(seconds=61)
            assert other.task(task).task.status == "ready"
            (taken,) = other.claim_next()
            assert taken.task.id == task
            assert taken.task.fence > held["fence"]
            before = record(root)
            for tool, more in (("heartbeat", {}), ("complete", {"result": "Late."}), ("release", {"note": "Late."})):
                code, words = await one.refused(tool, id=task, fence=held["fence"], **more)
                assert code == "conflict"
                assert str(taken.task.fence) in words
            assert record(root) == before
            assert other.complete(task, fence=taken.task.fence).status == "completed"


async def test_no_write_to_the_ledger_goes_without_the_claims_own_fence(root):
    async with agent(root) as one:
        task = (await one.do("create_task", title="Guarded", summary="By a fence."))["id"]
        fence = (await one.do("claim", id=task))["fence"]
        for tool in ("heartbeat", "complete", "release"):
            assert (await one.refused(tool, id=task))[0] == "invalid"
            assert (await one.refused(tool, id=task, fence=fence + 1))[0] == "conflict"
    for command in ("heartbeat", "complete", "release"):
        assert "--fence" in amem("task", command, task, root=root, code=2).err
        assert "fence" in amem("task", command, task, "--fence", fence + 1, root=root, code=1).err
    assert amem("task", "show", task, "--json", root=root).json["task"]["status"] == "claimed"


def test_of_processes_that_claim_at_the_same_time_one_gets_the_task(root):
    task = amem("task", "create", "-d", "notes", "--title", "Race", "--summary", "Once.", root=root).out.strip()
    command = [*program(), "--root", root, "task", "claim-next", "--json"]
    racing = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) for _ in range(4)
    ]
    answers = [process.communicate(timeout=60) for process in racing]
    assert [process.returncode for process in racing] == [0] * 4, answers
    assert sum(task.encode() in out for out, _ in answers) == 1


# 6. export writes a bundle, import lands it at raw and refuses what is wrong


@pytest.fixture
def bundle(root, owner, tmp_path):
    """A bundle of two entries, one of them verified."""
    ids = [
        owner.write(Draft(domain="notes", type="fact", title=f"Fact {name}", summary=f"It is {name}.", body=name)).id
        for name in ("alpha", "beta")
    ]
    owner.verify(ids[0], oracle="human", evidence="It was looked up.", by="the librarian on duty")
    assert owner.get(ids[0]).entry.trust_tier is Tier.verified
    owner.write(Draft(domain="notes", type="fact", title="Salary", summary="No.", label=Label.confidential))
    target = tmp_path / "bundle"
    done = amem("export", "--domain", "notes", "--to", target, "--max-label", "internal", "--json", root=root).json
    assert (done["entries"], done["withheld"], done["highest_label"]) == (2, 1, "internal")
    return target, ids


@pytest.fixture
def elsewhere(tmp_path):
    """Another root with a domain of the same name."""
    path = tmp_path / "elsewhere"
    Memory.init(path, domain="notes")
    return path


def test_what_is_imported_lands_at_raw_and_is_found(bundle, elsewhere):
    path, ids = bundle
    assert sorted(amem("import", path, root=elsewhere).out.split()) == sorted(ids)
    with Memory.open(elsewhere) as memory, memory.session(author="owner") as reader:
        assert {reader.get(id).entry.trust_tier for id in ids} == {Tier.raw}
    assert order(elsewhere, "alpha") == [ids[0]]


def test_the_same_entry_is_not_imported_twice(bundle, elsewhere):
    path, _ = bundle
    amem("import", path, root=elsewhere)
    before = record(elsewhere)
    assert "already" in amem("import", path, root=elsewhere, code=1).err
    assert record(elsewhere) == before


def tamper(path):
    (entry, *_) = sorted((path / "entries").iterdir())
    entry.write_bytes(entry.read_bytes() + b"A word more.\n")


def manifest(pattern, replacement):
    def spoil(path):
        file = path / "manifest.yaml"
        text, count = re.subn(pattern, replacement, file.read_text(), count=1, flags=re.MULTILINE)
        assert count == 1
        file.write_text(text)

    return spoil


def link_away(path):
    (entry, *_) = sorted((path / "entries").iterdir())
    outside = path.parent / "outside.md"
    entry.rename(outside)
    entry.symlink_to(outside)


def unlist(path):
    text = (path / "manifest.yaml").read_text()
    lines = [line for line in text.splitlines(keepends=True) if line.startswith("  - {id: ")]
    (path / "manifest.yaml").write_text(text.replace(lines[0], lines[0] * 2))


SPOILED = {
    "a digest that is another": (tamper, "digest"),
    "a path that climbs out": (manifest(r"path: entries/", "path: ../"), "path"),
    "an absolute path": (manifest(r"path: entries/", "path: /etc/"), "path"),
    "a link that leads out": (link_away, "symbolic link"),
    "a label above max_label": (manifest(r"^max_label: internal", "max_label: public"), "max_label"),
    "a line that says less than its file": (
        manifest(r"classification: internal", "classification: public"),
        "internal",
    ),
    "an id that stands twice": (unlist, "mem-"),
}


@pytest.mark.parametrize("wrong", SPOILED)
def test_a_bundle_is_refused_whole_for(wrong, bundle, elsewhere):
    path, ids = bundle
    spoil, word = SPOILED[wrong]
    spoil(path)
    refused = amem("import", path, root=elsewhere, code=1)
    assert word in refused.err
    assert "hint:" in refused.err
    assert not record(elsewhere).keys() & {f"record/notes/{id}.md" for id in ids}
    assert order(elsewhere, "alpha beta") == []


# 7. with the SQLite files deleted, reindex rebuilds index and ledger from the record and the log alone


def everything(root, ids, tasks):
    """Return the bytes of every answer: the command's to each kind of question, and the library's to many."""
    questions = [
        ["search", "repository checked"],
        ["get", ids[0]],
        ["task", "list"],
        ["task", "show", tasks[0]],
        ["t0"],
    ]
    found = {" ".join(question): amem(*question, "--json", root=root).out for question in questions}
    with Memory.open(root) as memory, memory.session(author="owner") as owner:
        asked = {
            **{
                query: owner.search(query, limit=50) for query in ("alpha", "C++", "nox", "nothing-of-the-kind", "手紙")
            },
            "sections": owner.search("dependency rules", depth="sections", limit=5),
            **{id: owner.get(id) for id in ids},
            **{f"{id} 1": owner.get(id, version=1) for id in ids},
            **{id: owner.task(id) for id in tasks},
            "recall": owner.recall("how is the repository checked"),
        }
    return found | {question: json.dumps(plain(answer)) for question, answer in asked.items()}


async def test_with_the_sqlite_files_deleted_a_reindex_gives_back_every_answer_byte_for_byte(root, material, tmp_path):
    amem("ingest", material, "--domain", "notes", root=root)
    async with agent(root) as one:
        first = await one.do("write", type="decision", title="Alpha", summary="The first letter.", body="alpha")
        await one.do(
            "write", type="decision", title="Alpha", summary="The first letter of all.", body="alpha", id=first["id"]
        )
        old = await one.do("write", type="handoff", title="Old", summary="To be superseded.")
        new = await one.do("write", type="handoff", title="New", summary="It stands.", supersedes=[old["id"]])
        done, open_, held = [
            (await one.do("create_task", title=f"Task {n}", summary="Do it.", priority=n))["id"] for n in range(3)
        ]
        fence = (await one.do("claim", id=done))["fence"]
        result = await one.do("complete", id=done, fence=fence, result="Done.")
        await one.do("claim", id=open_)
        await one.do("release", id=open_, fence=1, note="Not now.")
        kept = (await one.do("claim", id=held, lease_seconds=3600))["fence"]
    ids = [first["id"], old["id"], new["id"], result["handoff"]]
    tasks = [done, open_, held]
    before = everything(root, ids, tasks)

    assert delete_sqlite(root) == {"index.sqlite", "ledger.sqlite"}
    (rebuilt,) = amem("reindex", "--json", root=root).json["domains"]
    assert rebuilt["tasks"] == len(tasks)
    assert everything(root, ids, tasks) == before

    # From the record and the log alone: nothing else is carried to another directory.
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(os.path.join(root, "grants.toml"), bare)
    shutil.copytree(os.path.join(root, "record"), bare / "record")
    shutil.copytree(os.path.join(root, "state", "log"), bare / "state" / "log")
    amem("reindex", root=bare)
    assert everything(bare, ids, tasks) == before
    amem("task", "complete", held, "--fence", kept + 1, root=bare, code=1)
    amem("task", "complete", held, "--fence", kept, root=bare)
