"""``amem task``: the ledger of promises, from filing to completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from amem_launcher.framework import Group, owner, state
from amem_launcher.framework import command as declare
from amem_launcher.params import LABELS, STATUSES, domain_option, id_argument, lease_option, read_text

if TYPE_CHECKING:
    from amem_core.domain.results import TaskNode, TaskView
    from amem_core.domain.tasks import Task

command = Group(
    "task",
    help="File, claim, complete and list tasks. Whoever claims a task gets a fence, a number that every later"
    " step must show; when the lease ends the task goes back and the fence is worthless.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@declare(
    "create",
    help="File a task and print its id. With --origin and --upstream-event the same filing twice is one task.",
    examples="""
amem task create --domain my-project --title "Fix the build" --summary "It fails on main since Monday."
amem task create -d my-project --title "..." --summary "..." --origin github:acme/site#12 --upstream-event opened
amem task create -d my-project --title "..." --summary "..." --origin task:mem-01k... --priority 10
""",
)
@domain_option("The domain that it belongs to.", required=True)
@click.option("--title", metavar="T", required=True, help="The title, one line.")
@click.option("--summary", metavar="S", required=True, help="What is to be done; it stands alone.")
@click.option("--body-file", metavar="F|-", help="More, in Markdown: a file in UTF-8, or - for stdin.")
@click.option(
    "--priority", metavar="N", type=int, default=100, show_default=True, help="0 to 1000; lower is claimed first."
)
@click.option(
    "--origin", metavar="O", help="Where it comes from: task:ID, continues:ID, github:OWNER/REPO#N, librarian:KIND."
)
@click.option("--upstream-event", metavar="E", help="What happened there; origin and event are filed once.")
@click.option("--label", type=click.Choice(LABELS), help="The classification; the policy may raise it.")
@click.pass_context
def create(  # noqa: PLR0917  (click passes every option by its name)
    ctx: click.Context,
    domain: str,
    title: str,
    summary: str,
    body_file: str | None,
    priority: int,
    origin: str | None,
    upstream_event: str | None,
    label: str | None,
) -> None:
    """File as the owner."""
    from amem_core.domain.labels import Label
    from amem_launcher import output

    body = "" if body_file is None else read_text(body_file, "--body-file")
    with state(ctx).open() as memory, owner(memory) as session:
        view = session.create_task(
            domain=domain,
            title=title,
            summary=summary,
            body=body,
            priority=priority,
            origin=origin,
            upstream_event=upstream_event,
            label=None if label is None else Label.parse(label),
        )
    if state(ctx).json:
        output.answer(view)
        return
    output.out(view.task.id)
    if view.created:
        output.say("filed")
    output.notices(view.notices)


@declare(
    "claim-next",
    help="Claim the ready task that comes first by priority and age, and print its id and fence. Nothing ready"
    " prints nothing; the exit code is 0.",
    examples="""
amem task claim-next
amem task claim-next --domain my-project --lease 2h
amem task claim-next --json | jq -r '.tasks[0] | "\\(.task.id) \\(.task.fence)"'
""",
)
@domain_option("From this domain only.")
@lease_option()
@click.option("--limit", metavar="N", type=int, default=1, show_default=True, help="Claim up to so many, 1 to 100.")
@click.pass_context
def claim_next(ctx: click.Context, domain: str | None, lease: float, limit: int) -> None:
    """Claim as the owner."""
    from amem_launcher import output

    with state(ctx).open() as memory, owner(memory) as session:
        views = session.claim_next(domain=domain, lease=lease, limit=limit)
    if state(ctx).json:
        output.answer({"tasks": views})
        return
    for view in views:
        _claimed(view)
    if not views:
        output.say("no task is ready\n  try: amem task list --status claimed")


@declare("claim", help="Claim one task and print its id and fence.", examples="amem task claim mem-01k... --lease 2h")
@id_argument()
@lease_option()
@click.pass_context
def claim(ctx: click.Context, id: str, lease: float) -> None:
    """Claim one as the owner."""
    from amem_launcher import output

    with state(ctx).open() as memory, owner(memory) as session:
        view = session.claim(id, lease=lease)
    if state(ctx).json:
        output.answer(view)
    else:
        _claimed(view)


def _claimed(view: TaskView) -> None:
    """Print id and fence as a result, and what the task is as a message."""
    from amem_launcher import output

    task = view.task
    until = "" if task.lease_until is None else f", until {task.lease_until:%Y-%m-%d %H:%M:%S} UTC"
    output.out(f"{task.id} {task.fence}")
    output.say(f"claimed: {output.line(view.title)}{until}\n  {output.line(view.summary)}")
    output.say(f"  next: amem task complete {task.id} --fence {task.fence} --result-file -")
    output.notices(view.notices)


@declare(
    "heartbeat",
    help="Renew the lease of a task that is held.",
    examples="amem task heartbeat mem-01k... --fence 3 --lease 1h",
)
@id_argument()
@click.option("--fence", metavar="N", type=int, required=True, help="The number that the claim gave.")
@lease_option()
@click.pass_context
def heartbeat(ctx: click.Context, id: str, fence: int, lease: float) -> None:
    """Renew as the owner."""
    with state(ctx).open() as memory, owner(memory) as session:
        task = session.heartbeat(id, fence=fence, lease=lease)
    _moved(ctx, task)


@declare(
    "complete",
    help="Complete a task. The result is kept as an entry that cites it.",
    examples="""
amem task complete mem-01k... --fence 3
amem task complete mem-01k... --fence 3 --result-file result.md
""",
)
@id_argument()
@click.option("--fence", metavar="N", type=int, required=True, help="The number that the claim gave.")
@click.option("--result-file", metavar="F|-", help="What came of it, in Markdown: a file, or - for stdin.")
@click.pass_context
def complete(ctx: click.Context, id: str, fence: int, result_file: str | None) -> None:
    """Complete as the owner."""
    result = None if result_file is None else read_text(result_file, "--result-file")
    with state(ctx).open() as memory, owner(memory) as session:
        task = session.complete(id, fence=fence, result=result)
    _moved(ctx, task, "the result is kept as")


@declare(
    "release",
    help="Give a task back. The note is kept as a handoff for whoever claims it next.",
    examples="""
amem task release mem-01k... --fence 3
echo "blocked by the review" | amem task release mem-01k... --fence 3 --note-file -
""",
)
@id_argument()
@click.option("--fence", metavar="N", type=int, required=True, help="The number that the claim gave.")
@click.option(
    "--note-file",
    "--result-file",
    "note_file",
    metavar="F|-",
    help="What the next one must know: a file, or - for stdin.",
)
@click.pass_context
def release(ctx: click.Context, id: str, fence: int, note_file: str | None) -> None:
    """Release as the owner."""
    note = None if note_file is None else read_text(note_file, "--note-file")
    with state(ctx).open() as memory, owner(memory) as session:
        task = session.release(id, fence=fence, note=note)
    _moved(ctx, task, "the handoff is")


def _moved(ctx: click.Context, task: Task, left: str = "the last handoff is") -> None:
    """Print where a task stands after a step."""
    from amem_launcher import output

    if state(ctx).json:
        output.answer(task)
        return
    output.out(_line(task, ""))
    if task.handoff is not None:
        output.say(f"{left} {task.handoff}")


@declare("show", help="Show one task with its text.", examples="amem task show mem-01k...")
@id_argument()
@click.pass_context
def show(ctx: click.Context, id: str) -> None:
    """Show as the owner."""
    from amem_launcher import output

    with state(ctx).open() as memory, owner(memory) as session:
        view = session.task(id)
    if state(ctx).json:
        output.answer(view)
        return
    task = view.task
    more = {
        "priority": str(task.priority),
        "origin": task.origin,
        "upstream event": task.upstream_event,
        "holder": task.holder,
        "fence": str(task.fence) if task.fence else None,
        "lease until": None if task.lease_until is None else f"{task.lease_until:%Y-%m-%d %H:%M:%S} UTC",
        "handoff": task.handoff,
    }
    lines = [output.style(output.line(view.title), "bold"), _line(task, "")]
    lines += [f"{name}: {output.line(value)}" for name, value in more.items() if value]
    output.styled("\n".join([*lines, "", output.line(view.summary)]))
    if view.body:
        output.out(f"\n{view.body.rstrip()}")
    output.notices(view.notices)


@declare(
    "list",
    help="List tasks by id, a line each.",
    examples="""
amem task list
amem task list --domain my-project --status ready --status claimed
amem task list --after mem-01k... --limit 1000  # the next page
""",
)
@domain_option("Of this domain only.")
@click.option("--status", "statuses", type=click.Choice(STATUSES), multiple=True, help="Only these.  [repeatable]")
@click.option("--after", metavar="ID", help="Go on behind this id.")
@click.option("--limit", metavar="N", type=int, default=100, show_default=True, help="At most so many, 1 to 1000.")
@click.pass_context
def list_tasks(
    ctx: click.Context, domain: str | None, statuses: tuple[str, ...], after: str | None, limit: int
) -> None:
    """List as the owner."""
    from amem_core.domain.tasks import TaskStatus
    from amem_launcher import output

    chosen = [TaskStatus(name) for name in statuses]
    with state(ctx).open() as memory, owner(memory) as session:
        nodes = session.tasks(domain=domain, statuses=chosen, after=after, limit=limit)
    if state(ctx).json:
        output.answer({"tasks": nodes})
        return
    if nodes:
        output.styled("\n".join(_line(node.task, node.title) for node in nodes))
    if not nodes:
        output.say("there is no such task")
    elif len(nodes) == limit:
        output.say(f"there may be more: amem task list --after {nodes[-1].task.id}")


@declare(
    "tree",
    help="Show a task and, below it, what came of it.",
    examples="amem task tree mem-01k...",
)
@id_argument()
@click.pass_context
def tree(ctx: click.Context, id: str) -> None:
    """Show the tree as the owner."""
    from amem_launcher import output

    with state(ctx).open() as memory, owner(memory) as session:
        root = session.task_tree(id)
    if state(ctx).json:
        output.answer(root)
    else:
        output.styled("\n".join(_branches(root)))


def _branches(root: TaskNode) -> list[str]:
    """Return the lines of a tree, deep as it may be."""
    lines: list[str] = []
    waiting = [(root, "", "")]
    while waiting:
        node, lead, below = waiting.pop()
        lines.append(f"{lead}{_line(node.task, node.title)}")
        last = len(node.children) - 1
        branches = [
            (child, f"{below}{'└─ ' if place == last else '├─ '}", f"{below}{'   ' if place == last else '│  '}")
            for place, child in enumerate(node.children)
        ]
        waiting.extend(reversed(branches))
    return lines


def _line(task: Task, title: str) -> str:
    from amem_launcher.output import line, style

    colour = {"ready": "yellow", "completed": "green"}.get(task.status, "bold")
    holder = f"  by {task.holder}" if task.holder else ""
    text = f"{task.id}  {style(f'{task.status:<9}', colour)}  {task.priority:>4}  {task.domain}{holder}"
    return f"{text}  {line(title)}" if title else text


for one in (create, claim_next, claim, heartbeat, complete, release, show, list_tasks, tree):
    command.add_command(one)
