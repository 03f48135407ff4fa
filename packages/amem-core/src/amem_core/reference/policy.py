"""The Policy port in plain Python: the oracle that other engines are compared with, and for tests of core.

It states the rules of the built-in policy a second time, on purpose and in another way: where the two
disagree, one of them is wrong.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from typing import Any, cast

from amem_core.domain.decisions import Decision
from amem_core.domain.labels import Label, Status, Tier
from amem_core.domain.queries import CLOSED, ReadFilter
from amem_core.errors import AmemError, ConfigError, UnavailableError
from amem_core.ports.policy import PolicyCapabilities

FILE = "grants.toml"

_SEEING = frozenset({"read", "claim", "heartbeat", "complete", "release", "reject"})
_WRITING = frozenset({"write", "file_task"})
_OWNERS = frozenset({"export", "import", "reindex", "erase", "lift", "verify"})
_READ_BY_ALL = frozenset({Status.active, Status.superseded, Status.archived, Status.demoted})

_INIT = '\n[domains.{name}]\nlabel = "{label}"\n'
_NEW = 'format = 1\n\n[destinations.model]\nceiling = "internal"\n\n[destinations.export]\nceiling = "internal"\n'


def open_policy(root: str, settings: object) -> MemoryPolicy:  # noqa: ARG001  (a factory's signature)
    """Open the policy over ``grants.toml`` of ``root``; with no such file it denies everything.

    Raises:
        ConfigError: the grants are broken.
        UnavailableError: the grants cannot be read.
    """
    return MemoryPolicy(os.path.join(root, FILE))


class _Refusals:
    """Collects what is against an action."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def add(self, when: bool, rule: str, reason: str) -> None:  # noqa: FBT001  (reads as: add when)
        if when:
            self.found.append((rule, reason))


class _Facts:
    """The input, read with care: what has the wrong kind is as if it were not there."""

    def __init__(self, grants: Mapping[str, Any], action: str, input: Mapping[str, Any]) -> None:
        session = _mapping(input.get("session"))
        self.action = action
        self.resource = _mapping(input.get("resource"))
        self.author = session.get("author")
        self.kind = self._kind(session)
        self.held: dict[str, Label] = {
            name: Label.parse(grant.get("label", "internal"))
            for name, grant in grants.get("domains", {}).items()
            if "owner" in grant.get("holders", ["owner"])
        }
        self.destinations = {
            name: Label.parse(grant["ceiling"]) for name, grant in grants.get("destinations", {}).items()
        }
        self.domain = self.resource.get("domain")
        self.destination = session.get("destination")
        self.session_label = _label(session.get("label"))
        self.ceiling = self._ceiling(session)
        found = session.get("domains", 0)
        # A list or None; anything else is told apart as no narrowing at all.
        self.narrowing_is_known = found is None or isinstance(found, list)
        self.narrowed = cast("list[object]", found) if isinstance(found, list) else None

    @staticmethod
    def _kind(session: Mapping[str, Any]) -> str | None:
        kind, author = session.get("kind"), session.get("author")
        if kind == "owner" and author == "owner":
            return "owner"
        if kind == "agent" and isinstance(author, str) and author != "owner":
            return "agent"
        return None

    def _limit(self, session: Mapping[str, Any]) -> Label | None:
        if self.kind == "owner" and session.get("destination", 0) is None:
            return Label.restricted
        return self.destinations.get(self.destination) if isinstance(self.destination, str) else None

    def _ceiling(self, session: Mapping[str, Any]) -> Label | None:
        limit = self._limit(session)
        if self.action == "session" or limit is None:
            return limit
        carried = _label(session.get("ceiling"))
        return None if carried is None else min(limit, carried)

    def in_session(self, name: object) -> bool:
        return self.narrowing_is_known and (self.narrowed is None or name in self.narrowed)


class MemoryPolicy:
    """Decides over the grants of one file, read at each question."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._grants()

    @property
    def version(self) -> str:
        """Identifies the grants; the rules are this module's."""
        return hashlib.sha256(b"reference:" + self._bytes()).hexdigest()[:16]

    @property
    def capabilities(self) -> PolicyCapabilities:
        """Reasons and rules come with every decision."""
        return PolicyCapabilities(explain=True)

    def decide(self, action: str, input: Mapping[str, Any]) -> Decision:
        """Decide one action."""
        try:
            version = self.version
            json.dumps(input, allow_nan=False, default=dict)
            grants = self._grants()
            facts = _Facts(grants, action, input)
        except (AmemError, TypeError, ValueError, RecursionError) as exc:
            return Decision(allowed=False, reasons=(str(exc),), rules=("policy-failed",), version="none")
        if not grants:
            return Decision(allowed=False, reasons=("there is no grants.toml",), rules=("no-grants",), version=version)
        refusals = _Refusals()
        obligations: dict[str, Any] = {}
        _check_session(facts, refusals)
        if action == "session":
            obligations = {"ceiling": str(facts.ceiling)}
            _check_narrowing(facts, refusals)
        elif action in _SEEING | _WRITING | _OWNERS:
            _check_domain(facts, refusals)
            obligations = _check_action(facts, refusals)
        else:
            refusals.add(True, "unknown-action", f"{action} is not an action that the policy knows")  # noqa: FBT003
        if refusals.found:
            rules, reasons = zip(*refusals.found, strict=True)
            return Decision(allowed=False, reasons=reasons, rules=rules, version=version)
        return Decision(
            allowed=True, reasons=(), rules=(f"{action}-allowed",), version=version, obligations=obligations
        )

    def read_filter(self, session: Mapping[str, Any]) -> ReadFilter:
        """Return what the session may read."""
        try:
            facts = _Facts(self._grants(), "read_filter", {"session": session})
        except AmemError:
            return CLOSED
        refusals = _Refusals()
        _check_session(facts, refusals)
        if refusals.found or facts.ceiling is None:
            return CLOSED
        return ReadFilter({name: facts.ceiling for name in facts.held if facts.in_session(name)})

    def domains(self) -> list[str]:
        """Return the domains that the grants know, sorted."""
        return sorted(self._grants().get("domains", {}))

    def init_domain(self, domain: str, label: Label | None) -> bool:
        """Append a domain to the grants; return False when they know it already."""
        if domain in self._grants().get("domains", {}):
            return False
        text = self._bytes().decode() or _NEW
        text += _INIT.format(name=domain, label=label if label is not None else Label.internal)
        try:
            with open(self._path, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as exc:
            message = f"{self._path} cannot be written: {exc.strerror}"
            raise UnavailableError(message, hint="give this user write permission there") from exc
        return True

    def close(self) -> None:
        """Nothing is held."""

    def _bytes(self) -> bytes:
        try:
            with open(self._path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""
        except OSError as exc:
            message = f"{self._path} cannot be read: {exc.strerror}"
            raise UnavailableError(message, hint="give this user read permission there") from exc

    def _grants(self) -> Mapping[str, Any]:
        try:
            return tomllib.loads(self._bytes().decode())
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
            message = f"{self._path} is no TOML: {exc}"
            raise ConfigError(message, hint="mend the line that the message names") from exc


def _check_session(facts: _Facts, refusals: _Refusals) -> None:
    refusals.add(facts.kind is None, "unknown-session", "its kind and its author do not agree")
    refusals.add(
        facts.ceiling is None,
        "no-ceiling",
        f"the destination {facts.destination} is not in the grants, or the session carries no ceiling",
    )
    refusals.add(
        not facts.narrowing_is_known,
        "no-narrowing",
        "the session's domains are neither a list nor null",
    )


def _check_narrowing(facts: _Facts, refusals: _Refusals) -> None:
    for name in facts.narrowed or ():
        refusals.add(name not in facts.held, "domain-not-held", f"nobody holds the domain {name} in the grants")


def _check_domain(facts: _Facts, refusals: _Refusals) -> None:
    held = isinstance(facts.domain, str) and facts.domain in facts.held
    refusals.add(not held, "domain-not-held", f"nobody holds the domain {facts.domain} in the grants")
    refusals.add(
        held and not facts.in_session(facts.domain),
        "domain-not-in-session",
        f"the session was narrowed to other domains than {facts.domain}",
    )


def _check_action(facts: _Facts, refusals: _Refusals) -> dict[str, Any]:
    owner = facts.kind == "owner"
    refusals.add(facts.action in _OWNERS and not owner, "owner-only", f"only the owner may {facts.action}")
    if facts.action in _SEEING:
        _check_seeing(facts, refusals)
    elif facts.action in _WRITING:
        return _check_writing(facts, refusals)
    elif facts.action == "export":
        return _check_export(facts, refusals)
    elif facts.action == "import":
        _check_label(facts, refusals, _label(facts.resource.get("highest_label")))
    return {}


def _check_seeing(facts: _Facts, refusals: _Refusals) -> None:
    _check_label(facts, refusals, _label(facts.resource.get("label")))
    if facts.action == "read":
        status = facts.resource.get("status")
        open_to_it = status in _READ_BY_ALL or (facts.kind == "owner" and status == Status.quarantined)
        refusals.add(not open_to_it, "status-closed", f"an entry that is {status} is not read")
    if facts.action == "reject":
        kind = facts.resource.get("type")
        refusals.add(
            facts.kind != "owner" and (not isinstance(kind, str) or kind == "policy"),
            "owner-only",
            "policy is the owner's",
        )
        unverified = facts.resource.get("tier") in (str(Tier.raw), str(Tier.curated))
        refusals.add(
            facts.kind != "owner" and not unverified, "verified-entry", "only the owner rejects a verified entry"
        )


def _check_label(facts: _Facts, refusals: _Refusals, label: Label | None) -> None:
    refusals.add(label is None, "no-label", "there is no label that the policy knows")
    if label is not None and facts.ceiling is not None:
        refusals.add(
            label > facts.ceiling, "label-above-ceiling", f"it is {label} and the session's ceiling is {facts.ceiling}"
        )


def _check_writing(facts: _Facts, refusals: _Refusals) -> dict[str, Any]:
    owner = facts.kind == "owner"
    given = facts.resource.get("label", 0)
    asked = _label(given)
    replaces = facts.resource.get("replaces", 0) if facts.action == "write" else None
    replaced = _label(_mapping(replaces).get("label"))
    whole = (given is None or asked is not None) and (replaces is None or replaced is not None)
    refusals.add(not whole or facts.session_label is None, "unknown-label", "not all labels are there")
    if facts.action == "write":
        kind = facts.resource.get("type")
        refusals.add(
            not owner and (not isinstance(kind, str) or kind == "policy"), "owner-only", "policy is the owner's"
        )
        tier = _mapping(replaces).get("tier", "none")
        unverified = tier in ("none", str(Tier.raw), str(Tier.curated))
        refusals.add(not owner and not unverified, "verified-entry", "only the owner replaces a verified entry")
    if owner and asked is not None:
        taken = asked
    else:
        usual = facts.held.get(facts.domain) if isinstance(facts.domain, str) else None
        taken = max(label for label in (asked, usual, replaced, facts.session_label, Label.public) if label is not None)
    _check_label(facts, refusals, taken)
    return {"label": str(taken)}


def _check_export(facts: _Facts, refusals: _Refusals) -> dict[str, Any]:
    limit = facts.destinations.get("export")
    given = facts.resource.get("max_label", 0)
    asked = Label.restricted if given is None else _label(given)
    refusals.add(limit is None, "unknown-destination", "the destination export is not in the grants")
    refusals.add(asked is None, "unknown-label", "the highest label that is asked for is no label")
    labels = [label for label in (limit, asked, facts.ceiling) if label is not None]
    return {"max_label": str(min(labels, default=Label.public))}


def _mapping(found: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _label(word: object) -> Label | None:
    return Label[word] if isinstance(word, str) and word in Label.__members__ else None
