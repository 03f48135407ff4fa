"""The table of decisions: who asks for what, and what must come out. Every engine answers it alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GRANTS = """\
format = 1

[owner]
name = "owner"

[domains.notes]
label = "internal"
holders = ["owner"]

[domains.open]
label = "public"

[domains.secret]
label = "confidential"
holders = ["owner"]

[domains.orphan]
label = "public"
holders = []

[destinations.model]
ceiling = "internal"

[destinations.house]
ceiling = "restricted"

[destinations.export]
ceiling = "confidential"
"""

ABSENT = object()
_LIST: list[object] = []
_OBJECT: dict[str, object] = {}


def agent(**changed: object) -> dict[str, Any]:
    """Return an agent's session at the destination ``model``; ``ABSENT`` leaves a field out."""
    return _with(
        {
            "author": "session:one",
            "kind": "agent",
            "destination": "model",
            "domains": None,
            "label": "public",
            "ceiling": "internal",
        },
        changed,
    )


def owner(**changed: object) -> dict[str, Any]:
    """Return the owner's session at the command line."""
    return _with(
        {
            "author": "owner",
            "kind": "owner",
            "destination": None,
            "domains": None,
            "label": "public",
            "ceiling": "restricted",
        },
        changed,
    )


def entry(**changed: object) -> dict[str, Any]:
    """Return an entry that an agent may read."""
    return _with({"id": "mem-1", "domain": "notes", "label": "internal", "status": "active", "type": "fact"}, changed)


def draft(**changed: object) -> dict[str, Any]:
    """Return a write that an agent may do."""
    return _with({"domain": "notes", "type": "fact", "label": None, "replaces": None}, changed)


def replaced(tier: object = "raw", label: object = "internal") -> dict[str, Any]:
    """Return what a write says of the entry that it replaces."""
    return {"id": "mem-1", "author": "session:other", "tier": tier, "label": label}


@dataclass(frozen=True)
class Case:
    """One question. ``says`` are words that the reasons of a refusal must hold."""

    requirement: str
    name: str
    action: str
    session: Mapping[str, Any]
    resource: Mapping[str, Any]
    allowed: bool
    obligations: Mapping[str, str] = field(default_factory=dict[str, str])
    says: tuple[str, ...] = ()


def _with(base: dict[str, Any], changed: Mapping[str, object]) -> dict[str, Any]:
    return {key: value for key, value in {**base, **changed}.items() if value is not ABSENT}


def yes(requirement: str, name: str, action: str, session: Any, resource: Any, **obligations: str) -> Case:
    """Return a case that is allowed, with what it obliges to."""
    return Case(f"policy:{requirement}", name, action, session, resource, allowed=True, obligations=obligations)


def no(requirement: str, name: str, action: str, session: Any, resource: Any, *says: str) -> Case:
    """Return a case that is refused, with words that the reasons hold."""
    return Case(f"policy:{requirement}", name, action, session, resource, allowed=False, says=says)


SESSIONS = [
    yes("session:agent", "agent", "session", agent(ceiling="public"), {}, ceiling="internal"),
    yes("session:agent", "tap", "session", agent(author="tap:github"), {}, ceiling="internal"),
    yes("session:agent", "trusted-destination", "session", agent(destination="house"), {}, ceiling="restricted"),
    no("session:agent", "unknown-destination", "session", agent(destination="nowhere"), {}, "nowhere"),
    no("session:agent", "no-destination", "session", agent(destination=None), {}, "destination"),
    no("session:agent", "destination-left-out", "session", agent(destination=ABSENT), {}, "destination"),
    no("session:agent", "destination-false", "session", agent(destination=False), {}),
    no("session:agent", "destination-zero", "session", agent(destination=0), {}),
    no("session:agent", "destination-empty", "session", agent(destination=""), {}),
    yes("session:owner", "owner", "session", owner(ceiling="public"), {}, ceiling="restricted"),
    yes("session:owner", "owner-to-a-model", "session", owner(destination="model"), {}, ceiling="internal"),
    no("session:owner", "owner-to-nowhere", "session", owner(destination="nowhere"), {}, "nowhere"),
    no("session:owner", "owner-destination-false", "session", owner(destination=False), {}),
    no("session:owner", "owner-destination-left-out", "session", owner(destination=ABSENT), {}),
    no("session:identity", "agent-says-owner", "session", agent(author="owner"), {}),
    no("session:identity", "session-says-owner", "session", owner(author="session:one"), {}),
    no("session:identity", "unknown-kind", "session", owner(kind="root"), {}),
    no("session:identity", "kind-true", "session", owner(kind=True), {}),
    no("session:identity", "no-author", "session", agent(author=None), {}),
    no("session:identity", "no-session", "session", None, {}),
    no("session:identity", "empty-session", "session", {}, {}),
    yes("session:narrowing", "narrowed", "session", agent(domains=["notes", "open"]), {}, ceiling="internal"),
    yes("session:narrowing", "narrowed-to-nothing", "session", agent(domains=[]), {}, ceiling="internal"),
    no("session:narrowing", "wider", "session", agent(domains=["notes", "elsewhere"]), {}, "elsewhere"),
    no("session:narrowing", "to-what-nobody-holds", "session", agent(domains=["orphan"]), {}, "orphan"),
    no("session:narrowing", "domains-left-out", "session", agent(domains=ABSENT), {}),
    no("session:narrowing", "domains-false", "session", agent(domains=False), {}),
    no("session:narrowing", "domains-text", "session", agent(domains="notes"), {}),
]

READS = [
    yes("read:label", "at-the-ceiling", "read", agent(), entry()),
    yes("read:label", "below-the-ceiling", "read", agent(), entry(label="public")),
    no("read:label", "above", "read", agent(), entry(label="confidential"), "confidential", "internal"),
    no("read:label", "lifted-ceiling", "read", agent(ceiling="restricted"), entry(label="confidential"), "internal"),
    no("read:label", "lowered-ceiling", "read", agent(ceiling="public"), entry(), "internal", "public"),
    yes("read:label", "owner-restricted", "read", owner(), entry(label="restricted")),
    no("read:label", "owner-to-a-model", "read", owner(destination="model"), entry(label="restricted"), "restricted"),
    *(
        no("read:label", f"label-{word!r}", "read", owner(), entry(label=word))
        for word in (None, False, 0, 3, "", "secret", _LIST, _OBJECT)
    ),
    no("read:label", "label-left-out", "read", owner(), entry(label=ABSENT)),
    *(
        no("read:label", f"ceiling-{word!r}", "read", owner(ceiling=word), entry())
        for word in (None, False, 0, 3, "", _LIST)
    ),
    no("read:label", "ceiling-left-out", "read", owner(ceiling=ABSENT), entry()),
    no("read:domain", "unknown", "read", owner(), entry(domain="elsewhere"), "elsewhere"),
    no("read:domain", "orphan", "read", owner(), entry(domain="orphan", label="public"), "orphan"),
    no("read:domain", "narrowed-away", "read", agent(domains=["open"]), entry(), "notes"),
    no("read:domain", "narrowed-to-nothing", "read", agent(domains=[]), entry(), "notes"),
    yes("read:domain", "narrowed-to-it", "read", agent(domains=["notes"]), entry()),
    *(
        no("read:domain", f"domain-{word!r}", "read", owner(), entry(domain=word))
        for word in (None, False, 0, "", ["notes"])
    ),
    no("read:domain", "domain-left-out", "read", owner(), entry(domain=ABSENT)),
    no("read:domain", "no-resource", "read", owner(), None),
    *(yes("read:status", word, "read", agent(), entry(status=word)) for word in ("superseded", "archived", "demoted")),
    no("read:status", "erased", "read", owner(), entry(status="erased"), "erased"),
    no("read:status", "agent-quarantined", "read", agent(), entry(status="quarantined"), "quarantined"),
    yes("read:status", "owner-quarantined", "read", owner(), entry(status="quarantined")),
    *(
        no("read:status", f"status-{word!r}", "read", owner(), entry(status=word))
        for word in (None, False, 0, "", "new")
    ),
    no("read:status", "status-left-out", "read", owner(), entry(status=ABSENT)),
]

TASKS = [
    case
    for action in ("claim", "heartbeat", "complete", "release")
    for case in (
        yes(
            "task:holder",
            f"{action}-at-the-ceiling",
            action,
            agent(),
            {"id": "mem-1", "domain": "notes", "label": "internal"},
        ),
        no(
            "task:holder",
            f"{action}-above",
            action,
            agent(),
            {"id": "mem-1", "domain": "notes", "label": "confidential"},
            "confidential",
        ),
        no(
            "task:holder",
            f"{action}-elsewhere",
            action,
            agent(),
            {"id": "mem-1", "domain": "elsewhere", "label": "public"},
            "elsewhere",
        ),
        no(
            "task:holder",
            f"{action}-narrowed",
            action,
            agent(domains=["open"]),
            {"id": "mem-1", "domain": "notes", "label": "public"},
        ),
        no("task:holder", f"{action}-no-label", action, agent(), {"id": "mem-1", "domain": "notes", "label": None}),
    )
]

WRITES = [
    case
    for action in ("write", "file_task")
    for case in (
        yes("write:label", f"{action}-default", action, agent(), draft(), label="internal"),
        yes("write:label", f"{action}-lower-wish", action, agent(), draft(label="public"), label="internal"),
        yes("write:label", f"{action}-in-public", action, agent(), draft(domain="open"), label="public"),
        yes(
            "write:label",
            f"{action}-higher-wish",
            action,
            agent(),
            draft(domain="open", label="internal"),
            label="internal",
        ),
        yes(
            "write:label", f"{action}-has-read", action, agent(label="internal"), draft(domain="open"), label="internal"
        ),
        no("write:label", f"{action}-above", action, agent(), draft(label="confidential"), "confidential", "internal"),
        no("write:label", f"{action}-in-secret", action, agent(), draft(domain="secret"), "confidential", "internal"),
        no(
            "write:label",
            f"{action}-read-too-much",
            action,
            agent(label="confidential"),
            draft(domain="open"),
            "confidential",
        ),
        yes(
            "write:owner-label",
            f"{action}-owner-default",
            action,
            owner(),
            draft(domain="secret"),
            label="confidential",
        ),
        yes(
            "write:owner-label",
            f"{action}-owner-lower",
            action,
            owner(label="restricted"),
            draft(domain="secret", label="public"),
            label="public",
        ),
        yes(
            "write:owner-label",
            f"{action}-owner-has-read",
            action,
            owner(label="restricted"),
            draft(),
            label="restricted",
        ),
        yes(
            "write:owner-label",
            f"{action}-owner-higher",
            action,
            owner(),
            draft(label="restricted"),
            label="restricted",
        ),
        no(
            "write:owner-label",
            f"{action}-owner-above",
            action,
            owner(ceiling="internal"),
            draft(label="restricted"),
            "restricted",
            "internal",
        ),
        *(
            no("write:label", f"{action}-label-{word!r}", action, owner(), draft(label=word))
            for word in (False, 0, 1, "", "secret", _LIST)
        ),
        no("write:label", f"{action}-label-left-out", action, agent(), draft(label=ABSENT)),
        *(
            no("write:label", f"{action}-session-label-{word!r}", action, agent(label=word), draft())
            for word in (None, False, 0, "", _LIST)
        ),
        no("write:label", f"{action}-session-label-left-out", action, agent(label=ABSENT), draft()),
        no("write:domain", f"{action}-elsewhere", action, owner(), draft(domain="elsewhere"), "elsewhere"),
        no("write:domain", f"{action}-orphan", action, owner(), draft(domain="orphan"), "orphan"),
        no("write:domain", f"{action}-narrowed", action, agent(domains=["open"]), draft(), "notes"),
    )
]

REPLACEMENTS = [
    yes("write:replace", "raw", "write", agent(), draft(replaces=replaced()), label="internal"),
    yes("write:replace", "curated", "write", agent(), draft(replaces=replaced("curated")), label="internal"),
    no("write:replace", "verified", "write", agent(), draft(replaces=replaced("verified")), "verified"),
    yes("write:replace", "owner-verified", "write", owner(), draft(replaces=replaced("verified")), label="internal"),
    *(
        no("write:replace", f"tier-{word!r}", "write", agent(), draft(replaces=replaced(word)))
        for word in (None, False, 0, 2, "")
    ),
    no(
        "write:replace",
        "keeps-the-label",
        "write",
        agent(destination="house"),
        draft(domain="open", replaces=replaced(label="restricted")),
        "restricted",
    ),
    yes(
        "write:replace",
        "takes-the-label",
        "write",
        agent(destination="house", ceiling="restricted"),
        draft(domain="open", replaces=replaced(label="restricted")),
        label="restricted",
    ),
    yes(
        "write:replace",
        "owner-keeps",
        "write",
        owner(),
        draft(replaces=replaced(label="restricted")),
        label="restricted",
    ),
    yes(
        "write:replace",
        "owner-lowers",
        "write",
        owner(),
        draft(label="public", replaces=replaced(label="restricted")),
        label="public",
    ),
    *(
        no("write:replace", f"replaced-label-{word!r}", "write", agent(), draft(replaces=replaced(label=word)))
        for word in (None, False, 0, "")
    ),
    *(
        no("write:replace", f"replaces-{word!r}", "write", agent(), draft(replaces=word))
        for word in (False, 0, "", _LIST, _OBJECT)
    ),
    no("write:replace", "replaces-left-out", "write", agent(), draft(replaces=ABSENT)),
    no("write:policy", "agent", "write", agent(), draft(type="policy"), "owner"),
    yes("write:policy", "owner", "write", owner(), draft(type="policy"), label="internal"),
    *(no("write:policy", f"type-{word!r}", "write", agent(), draft(type=word)) for word in (None, False, 0)),
]

OWNERS = [
    yes("export:label", "no-wish", "export", owner(), {"domain": "notes", "max_label": None}, max_label="confidential"),
    yes("export:label", "lower", "export", owner(), {"domain": "notes", "max_label": "public"}, max_label="public"),
    yes(
        "export:label",
        "higher",
        "export",
        owner(),
        {"domain": "notes", "max_label": "restricted"},
        max_label="confidential",
    ),
    yes(
        "export:label",
        "ceiling",
        "export",
        owner(ceiling="public"),
        {"domain": "notes", "max_label": None},
        max_label="public",
    ),
    *(
        no("export:label", f"max-{word!r}", "export", owner(), {"domain": "notes", "max_label": word})
        for word in (False, 0, "", "all")
    ),
    no("export:label", "max-left-out", "export", owner(), {"domain": "notes"}),
    yes("import:label", "restricted", "import", owner(), {"domain": "notes", "highest_label": "restricted"}),
    no(
        "import:label",
        "above",
        "import",
        owner(ceiling="internal"),
        {"domain": "notes", "highest_label": "restricted"},
        "restricted",
    ),
    *(
        no("import:label", f"highest-{word!r}", "import", owner(), {"domain": "notes", "highest_label": word})
        for word in (None, False, 0, "")
    ),
    yes("owner:alone", "reindex", "reindex", owner(), {"domain": "notes"}),
    yes("owner:alone", "erase", "erase", owner(), {"domain": "notes", "id": "mem-1", "reason": "requested"}),
    no("owner:alone", "agent-export", "export", agent(), {"domain": "notes", "max_label": "public"}, "owner"),
    no("owner:alone", "agent-import", "import", agent(), {"domain": "notes", "highest_label": "public"}, "owner"),
    no("owner:alone", "agent-reindex", "reindex", agent(), {"domain": "notes"}, "owner"),
    no(
        "owner:alone",
        "agent-erase",
        "erase",
        agent(),
        {"domain": "notes", "id": "mem-1", "reason": "requested"},
        "owner",
    ),
    *(
        no(
            "owner:alone",
            f"{word}-elsewhere",
            word,
            owner(),
            {"domain": "elsewhere", "max_label": None, "highest_label": "public"},
            "elsewhere",
        )
        for word in ("export", "import", "reindex", "erase", "lift", "verify")
    ),
    *(yes("owner:alone", f"owner-{word}", word, owner(), entry()) for word in ("lift", "verify")),
    *(no("owner:alone", f"agent-{word}", word, agent(), entry(), "owner") for word in ("lift", "verify")),
]

CORRECTIONS = [
    yes("reject:tier", "raw", "reject", agent(), entry(tier="raw")),
    yes("reject:tier", "curated", "reject", agent(), entry(tier="curated")),
    no("reject:tier", "verified", "reject", agent(), entry(tier="verified"), "verified"),
    yes("reject:tier", "owner-verified", "reject", owner(), entry(tier="verified")),
    *(no("reject:tier", f"tier-{word!r}", "reject", agent(), entry(tier=word)) for word in (None, False, 0, "", "Raw")),
    no("reject:tier", "tier-left-out", "reject", agent(), entry()),
    no("reject:tier", "above", "reject", agent(ceiling="public"), entry(tier="raw", label="internal"), "public"),
    *(
        no("reject:type", f"type-{word!r}", "reject", agent(), entry(tier="raw", type=word), "policy")
        for word in ("policy", None, 7)
    ),
    no("reject:type", "type-left-out", "reject", agent(), entry(tier="raw", type=ABSENT), "policy"),
    yes("reject:type", "owner-policy", "reject", owner(), entry(tier="raw", type="policy")),
]

UNKNOWN = [
    *(
        no("deny:unknown-action", repr(word), word, owner(), entry(), word)
        for word in ("fly", "READ", "read ", "delete")
    ),
    no("deny:unknown-action", "empty", "", owner(), entry()),
    no("deny:unknown-action", "read-filter", "read_filter", owner(), entry()),
]

CASES = [*SESSIONS, *READS, *TASKS, *WRITES, *REPLACEMENTS, *OWNERS, *CORRECTIONS, *UNKNOWN]
