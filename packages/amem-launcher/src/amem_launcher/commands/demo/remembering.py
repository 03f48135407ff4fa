"""Steps 1 to 4: a root, a session that hands over, one that goes on, and looking things up."""

from __future__ import annotations

import json
import os
import re
import tomllib
from typing import TYPE_CHECKING

from amem_core.memory import Memory
from amem_core.services.t0 import MOST_CHARACTERS, MOST_TOKENS
from amem_core.services.tokens import count_tokens
from amem_launcher.commands.demo.agent import agent
from amem_launcher.commands.demo.evidence import Begun, HandedOver, LookedUp, Ranked, WentOn
from amem_launcher.commands.demo.stage import DOMAIN, hold
from amem_launcher.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amem_launcher.commands.demo.agent import Agent
    from amem_launcher.commands.demo.material import Material
    from amem_launcher.commands.demo.stage import Stage

_MOST_HITS = 100
_READ = 5
_NEXT = re.compile(r"^Next: search (\".*\")$", re.MULTILINE)


def begin(stage: Stage, material: Material) -> Begun:
    """Make the root, and entries of the material."""
    hold(Memory.init(stage.root, domain=DOMAIN), "init says that the domain was there before")
    hold(not Memory.init(stage.root, domain=DOMAIN), "init adds the same domain twice")
    with open(os.path.join(stage.root, "grants.toml"), "rb") as file:
        grant = tomllib.load(file).get("domains", {}).get(DOMAIN)
    hold(grant, f"grants.toml does not grant {DOMAIN}")
    with Memory.open(stage.root) as memory, memory.session(author="owner") as owner:
        with Progress("files") as progress:
            first = owner.ingest([material.path], domain=DOMAIN, dry_run=False, progress=progress.of)
        hold(first.written, "ingest wrote nothing")
        again = owner.ingest([material.path], domain=DOMAIN)
    hold(again.written == again.changed == again.archived == 0, "ingest wrote unchanged files again")
    return Begun(
        domain=DOMAIN,
        label=str(grant["label"]),
        grants="grants.toml",
        files=first.files,
        sections=first.written,
        broken=len(first.broken),
        again=again.written + again.changed,
    )


async def hand_over(stage: Stage, material: Material) -> HandedOver:
    """Work as session one: read, decide, write what the next one must know, and end."""
    topic, later = material.topics
    async with agent(stage) as one:
        await one.do("t0")
        found = await one.do("search", query=topic.title, limit=_READ)
        ids = [hit["id"] for hit in found.data["hits"]]
        hold(ids, f"search finds nothing for {topic.title!r}, the title of a section")
        for id in ids:
            await one.do("get", id=id)
        decided = await one.do(
            "write",
            type="decision",
            title=f"Ask about {topic.title} here first",
            summary=f"{ids[0]} answers what is asked about {topic.title}; it ranked first of {len(ids)}.",
            source=[ids[0]],
        )
        handed = await one.do(
            "write",
            type="handoff",
            title=f"{topic.title} is read, {later.title} is next",
            summary=f"{len(ids)} entries on {topic.title} are read and a decision is written. {later.title} is open.",
            body=f"Done: {decided.data['id']} says what was decided.\n\nNext: search {json.dumps(later.title)}\n",
            derived_from=[decided.data["id"]],
        )
        exchanged, tokens = len(one.spoken) // 2, one.tokens()
    author, documents = _left_behind(stage, [handed.data["id"], decided.data["id"]], ids)
    return HandedOver(
        author=author,
        decision=decided.data["id"],
        handoff=handed.data["id"],
        topic=topic.title,
        next_topic=later.title,
        exchanged=exchanged,
        exchanged_tokens=tokens,
        documents=len(documents),
        document_tokens=sum(count_tokens(text) for text in documents),
    )


def _left_behind(stage: Stage, written: Sequence[str], read: Sequence[str]) -> tuple[str, list[str]]:
    """Look at what a process that has ended left on the disk; return its author and the documents that it read."""
    for id in written:
        hold(os.path.isfile(os.path.join(stage.root, "record", DOMAIN, f"{id}.md")), f"the record holds no {id}")
    with Memory.open(stage.root) as memory, memory.session(author="owner") as owner:
        author = owner.get(written[0]).entry.author
        hold(author.startswith("session:"), f"the handoff's author is {author}")
        return author, _documents([source for id in read for source in owner.get(id).entry.source])


def _documents(sources: Sequence[str]) -> list[str]:
    """Return the text of the documents that the entries were made from, each once."""
    texts: list[str] = []
    for path in sorted({source.removeprefix("file:").rpartition("#")[0] for source in sources}):
        if os.path.isfile(path):
            with open(path, encoding="utf-8-sig", errors="replace") as file:
                texts.append(file.read())
    return texts


async def go_on(two: Agent, handed: HandedOver) -> WentOn:
    """Work as a session that has seen nothing but T0."""
    text = await two.first_read()
    first = await two.do("t0")
    hold(first.data["text"] == text, "the tool t0 and the resource amem://t0 differ")
    tokens = count_tokens(text)
    hold(tokens < MOST_TOKENS, f"T0 has {tokens} tokens")
    hold(len(text) <= MOST_CHARACTERS, f"T0 has {len(text)} characters")
    hold(handed.handoff in first.data["handoffs"], f"T0 does not show the handoff {handed.handoff}")
    hold(handed.decision in first.data["decisions"], f"T0 does not show the decision {handed.decision}")
    read = await two.do("get", id=first.data["handoffs"][first.data["handoffs"].index(handed.handoff)])
    step = _NEXT.search(read.data["text"])
    hold(step, "the handoff as it was read does not say what is next")
    query = str(json.loads(step.group(1))) if step else ""
    hold(query == handed.next_topic, f"the handoff says {query!r} and session one wrote {handed.next_topic!r}")
    found = await two.do("search", query=query, limit=_READ)
    ids = [hit["id"] for hit in found.data["hits"]]
    hold(ids, f"search finds nothing for {query!r}, what the handoff says is next")
    left = await two.do(
        "write",
        type="handoff",
        title=f"{handed.topic} and {query} are read",
        summary=f"What {handed.handoff} left open is done: {len(ids)} entries on {query} are read.",
        supersedes=[handed.handoff],
        derived_from=[handed.handoff],
    )
    after = (await two.do("t0")).data["handoffs"]
    hold(after == [left.data["id"]], f"T0 shows the handoffs {', '.join(after)} after the old one was superseded")
    author = str((await two.do("get", id=left.data["id"])).data["author"])
    hold(author != handed.author, "both sessions have the same author")
    return WentOn(
        author=author,
        handoff=handed.handoff,
        place=first.data["handoffs"].index(handed.handoff) + 1,
        successor=left.data["id"],
        t0_tokens=tokens,
        t0_characters=len(text),
        transcript_tokens=handed.tokens,
    )


async def look_up(stage: Stage, two: Agent, material: Material) -> LookedUp:
    """Search for the title of a section, and read one entry."""
    topic = material.topics[0]
    found = await two.do("search", query=topic.title, limit=_MOST_HITS)
    with Memory.open(stage.root) as memory, memory.session(author="owner") as owner:
        entries = [owner.get(hit["id"]).entry for hit in found.data["hits"]]
        scored = owner.search(topic.title, limit=_MOST_HITS).hits
    scores = [hit.score for hit in scored]
    hold(scores == sorted(scores, reverse=True), "the hits are not in the order of their scores")
    same = [hit.id for hit in scored] == [entry.id for entry in entries]
    hold(same, "the agent and the owner are given the same hits in different orders")
    sources = [entry.source for entry in entries]
    rank = next((place for place, source in enumerate(sources, 1) if topic.source in source), 0)
    hold(rank, f"the section {topic.title!r} is not among the {len(entries)} hits for its own title")
    longest = max(len(entry.summary) for entry in entries)
    for entry in entries:
        hold(entry.summary in found.text, f"the hit {entry.id} does not show its summary")
        body = entry.body.strip()
        hold(len(body) <= longest or body not in found.text, f"the hit {entry.id} shows its body")
    sought = entries[rank - 1]
    read = await two.do("get", id=sought.id)
    hold(sought.body.strip() in read.data["text"], f"get does not return the body of {sought.id}")
    others = [entry.id for entry in entries if entry.id != sought.id and f"id={entry.id} " in read.data["text"]]
    hold(not others, f"get {sought.id} returned {', '.join(others)} as well")
    return LookedUp(
        query=topic.title,
        hits=tuple(Ranked(place, hit.id, hit.score, hit.title) for place, hit in enumerate(scored, 1)),
        sought=rank,
        got=sought.id,
        search_tokens=count_tokens(found.text),
        body_tokens=count_tokens(read.text),
    )
