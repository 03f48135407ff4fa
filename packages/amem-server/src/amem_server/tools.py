"""The tools: what each is called, when a model should use it, and the one use case behind it.

A tool does nothing that the library does not: it reads its arguments, calls one method of the
session and puts the answer into the declared form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mcp.types import Tool, ToolAnnotations
from pydantic import TypeAdapter

from amem_core.domain.entries import Draft
from amem_core.domain.labels import Label
from amem_core.errors import InvalidError
from amem_server import arguments as take
from amem_server import results as give
from amem_server._schemas import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amem_core.session import Session

Answer = tuple[str, dict[str, Any]]
"""The text for a model's context, and the structured content."""

_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
_REMOVES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)
_RENEWS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


@dataclass(frozen=True)
class AmemTool:
    """One tool. ``run`` blocks and is called on a worker thread."""

    name: str
    title: str
    description: str
    arguments: type[take.Arguments]
    result: type[Any]
    annotations: ToolAnnotations
    run: Callable[[Session, Any], Answer]

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        schema = shortened(self.arguments.model_json_schema())
        del schema["description"]
        return schema

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        """The JSON schema of the structured content."""
        return shortened(TypeAdapter(self.result).json_schema(mode="serialization"))

    def declaration(self) -> Tool:
        """Return what a list of tools says of it."""
        return Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            annotations=self.annotations,
        )


def _noted(text: str, notices: Iterable[str]) -> str:
    return "\n".join([text, *(f"note: {notice}" for notice in notices)]).strip()


def _search(session: Session, asked: take.Search) -> Answer:
    result = session.search(
        asked.query,
        domain=asked.domain,
        types=asked.types,
        filter=asked.filter,
        limit=asked.limit,
        depth=asked.depth,
        as_of=asked.as_of,
        valid_at=asked.valid_at,
    )
    answer = give.found(result)
    masks = [f"answered {mask}" for mask in result.masks]
    return _noted(answer["text"], [*masks, *result.notices]) or "searched, and found nothing", answer


def _get(session: Session, asked: take.Get) -> Answer:
    answer = give.read(session.get(asked.id, version=asked.version, as_of=asked.as_of, valid_at=asked.valid_at))
    return answer["text"], answer


def _write(session: Session, asked: take.Write) -> Answer:
    draft = Draft(
        domain=_one_domain(session, asked.domain),
        type=asked.type,
        title=asked.title,
        summary=asked.summary,
        body=asked.body,
        id=asked.id,
        label=_label(asked.label),
        valid_from=asked.valid_from,
        valid_until=asked.valid_until,
        source=tuple(asked.source),
        confidence=asked.confidence,
        review_by=asked.review_by,
        supersedes=tuple(asked.supersedes),
        derived_from=tuple(asked.derived_from),
        tags=tuple(asked.tags),
        aliases=tuple(asked.aliases),
        always_load=asked.always_load,
    )
    done = session.write(draft)
    verb = "written" if done.changed else "unchanged"
    text = f"{verb}: {done.id} version {done.version} in {done.domain}, label {done.label}"
    return _noted(text, done.notices), give.written(done)


def _reject(session: Session, asked: take.Reject) -> Answer:
    done = session.reject(asked.id, reason=asked.reason)
    flagged = (
        f"; due for review, as derived from it or saying the same: {', '.join(done.flagged)}" if done.flagged else ""
    )
    return _noted(f"rejected: {done.id} in {done.domain}{flagged}", done.notices), give.rejected(done)


def _recall(session: Session, asked: take.Recall) -> Answer:
    pack = session.recall(
        asked.question,
        budget=asked.budget,
        domain=asked.domain,
        limit=asked.limit,
        as_of=asked.as_of,
        valid_at=asked.valid_at,
    )
    return _noted(pack.text, pack.notices) or "searched, and found nothing", give.recalled(pack)


def _t0(session: Session, asked: take.FirstRead) -> Answer:
    answer = session.t0(domain=asked.domain, as_of=asked.as_of, valid_at=asked.valid_at)
    return answer.text, give.first(answer)


def _create_task(session: Session, asked: take.CreateTask) -> Answer:
    view = session.create_task(
        domain=_one_domain(session, asked.domain),
        title=asked.title,
        summary=asked.summary,
        body=asked.body,
        priority=asked.priority,
        origin=asked.origin,
        upstream_event=asked.upstream_event,
        label=_label(asked.label),
    )
    answer = {**give.task_card(view), "filed": view.created}
    text = f"{'filed' if view.created else 'filed before'}: {_state(answer)}"
    return _noted(text, view.notices), answer


def _claim_next(session: Session, asked: take.ClaimNext) -> Answer:
    views = session.claim_next(domain=asked.domain, lease=asked.lease_seconds, limit=asked.limit)
    cards = [give.task_card(view) for view in views]
    text = "\n\n".join(_claimed(card) for card in cards)
    return text or "no task is ready", {"tasks": cards}


def _claim(session: Session, asked: take.Claim) -> Answer:
    card = give.task_card(session.claim(asked.id, lease=asked.lease_seconds))
    return _claimed(card), card


def _heartbeat(session: Session, asked: take.Heartbeat) -> Answer:
    state = give.task_state(session.heartbeat(asked.id, fence=asked.fence, lease=asked.lease_seconds))
    return f"held until {state.get('lease_until', 'now')}: {_state(state)}", state


def _complete(session: Session, asked: take.Complete) -> Answer:
    state = give.task_state(session.complete(asked.id, fence=asked.fence, result=asked.result))
    return f"completed: {_state(state)}", state


def _release(session: Session, asked: take.Release) -> Answer:
    state = give.task_state(session.release(asked.id, fence=asked.fence, note=asked.note))
    return f"released: {_state(state)}", state


def _state(state: dict[str, Any]) -> str:
    handoff = f", handoff {state['handoff']}" if "handoff" in state else ""
    return f"{state['id']} in {state['domain']}, {state['status']}, priority {state['priority']}{handoff}"


def _claimed(card: dict[str, Any]) -> str:
    until = f" until {card['lease_until']}" if "lease_until" in card else ""
    return _noted(f"claimed {card['id']} with fence {card['fence']}{until}\n{card['text']}", card["notices"])


def _label(name: str | None) -> Label | None:
    return None if name is None else Label.parse(name)


def _one_domain(session: Session, named: str | None) -> str:
    """Return the domain that was named, or the only one that the session holds."""
    if named is not None:
        return named
    held = sorted(session.readable.domains)
    if len(held) == 1:
        return held[0]
    message = f"no domain was named, and this session holds {len(held)}"
    raise InvalidError(message, hint=f"name one of: {', '.join(held)}" if held else "ask the owner for a grant")


TOOLS: dict[str, AmemTool] = {
    tool.name: tool
    for tool in (
        AmemTool(
            "t0",
            "Read first",
            "Read this first in every session: open handoffs from earlier sessions, standing decisions and pointers,"
            " in under 2,000 tokens.",
            take.FirstRead,
            give.First,
            _READS,
            _t0,
        ),
        AmemTool(
            "search",
            "Search the memory",
            "Find what earlier sessions learned, by words. Returns cards with id, title and summary, best first."
            " Use it before you work something out anew; then read the entries that matter with get."
            " Finding nothing is said as such and is not an error.",
            take.Search,
            give.Found,
            _READS,
            _search,
        ),
        AmemTool(
            "get",
            "Read an entry",
            "Read one entry whole, by its id: the current version, an earlier one, or the one current at a time.",
            take.Get,
            give.Read,
            _READS,
            _get,
        ),
        AmemTool(
            "recall",
            "Answer from the memory",
            "Ask a question and get the passages that answer it, in one block inside a token budget."
            " Use it when you want context to work with; use search when you want to choose.",
            take.Recall,
            give.Recalled,
            _READS,
            _recall,
        ),
        AmemTool(
            "write",
            "Write an entry",
            "Keep one thing that should outlive this session: a decision and why, a fact, a fix, a workflow."
            " One thing for each entry. Before you end, write an entry of type handoff: what was done, what is open,"
            " what to do next. To correct an entry, give its id or name it in supersedes.",
            take.Write,
            give.WrittenEntry,
            _ADDS,
            _write,
        ),
        AmemTool(
            "reject",
            "Reject what an entry states",
            "Take a statement that turned out wrong out of use, with the reason: it is served no more, and nobody can"
            " write it again until the owner lifts that. Use it when you have seen evidence against an entry. If you"
            " know what holds instead, write that, with the old entry in supersedes; then nothing needs rejecting.",
            take.Reject,
            give.RejectedEntry,
            _REMOVES,
            _reject,
        ),
        AmemTool(
            "create_task",
            "File a task",
            "Promise work on the ledger, for this session or a later one. Write it so that someone who was not here"
            " can do it.",
            take.CreateTask,
            give.CreatedTask,
            _ADDS,
            _create_task,
        ),
        AmemTool(
            "claim_next",
            "Claim the next task",
            "Take the most urgent task that is ready and hold it under a lease. Keep its fence: heartbeat, complete"
            " and release need it. Returns no task when none is ready.",
            take.ClaimNext,
            give.ClaimedTasks,
            _ADDS,
            _claim_next,
        ),
        AmemTool(
            "claim",
            "Claim a task",
            "Take one task by its id and hold it under a lease. Refused while someone else holds it.",
            take.Claim,
            give.TaskCard,
            _ADDS,
            _claim,
        ),
        AmemTool(
            "heartbeat",
            "Renew a lease",
            "Renew the lease of a task that you hold, before it runs out. Refused when the task is not yours any more:"
            " then stop working on it.",
            take.Heartbeat,
            give.TaskState,
            _RENEWS,
            _heartbeat,
        ),
        AmemTool(
            "complete",
            "Complete a task",
            "Say that a task that you hold is done. Put what came of it into result; it is kept as a handoff.",
            take.Complete,
            give.TaskState,
            _ADDS,
            _complete,
        ),
        AmemTool(
            "release",
            "Give a task back",
            "Give a task that you hold back unfinished, with a note of what the next claimant must know.",
            take.Release,
            give.TaskState,
            _ADDS,
            _release,
        ),
    )
}
"""Every tool by its name, in the order in which they are listed."""
