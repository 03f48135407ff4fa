"""What is demanded of the Policy port, over the grants that the suite writes to the root."""

from __future__ import annotations

from amem_conformance.manifest import Requirement

_TABLE = "port: Policy, table of actions"
_PORT = "port: Policy"
_DENY = "contract 5: Policy, default deny"
_WORDS = "contract 2: ceiling"

REQUIREMENTS: list[Requirement] = [
    Requirement(
        id="policy:session:agent",
        source=_WORDS,
        behaviour="an agent's session has the ceiling of its destination, which it must name and the grants must know",
    ),
    Requirement(
        id="policy:session:owner",
        source=_WORDS,
        behaviour="the owner's session has the ceiling restricted, or that of the destination that it names",
    ),
    Requirement(
        id="policy:session:identity",
        source=_TABLE,
        behaviour="a session whose kind and author do not agree gets nothing",
    ),
    Requirement(
        id="policy:session:narrowing",
        source=_TABLE,
        behaviour="a session may be narrowed to held domains and never widened",
    ),
    Requirement(
        id="policy:read:label",
        source=_WORDS,
        behaviour="nothing is read above the lower of the session's and its destination's ceiling",
    ),
    Requirement(
        id="policy:read:domain",
        source=_TABLE,
        behaviour="a domain that is not held, or that the session was narrowed away from, is not read",
    ),
    Requirement(
        id="policy:read:status",
        source=_TABLE,
        behaviour="what is erased is read by nobody, what is quarantined by the owner alone",
    ),
    Requirement(
        id="policy:task:holder",
        source=_TABLE,
        behaviour="claim, heartbeat, complete and release are bound by domain and label as reading is",
    ),
    Requirement(
        id="policy:write:label",
        source=_TABLE,
        behaviour="what an agent writes takes the highest of its wish, the domain's label and what the session has read, or is refused",
    ),
    Requirement(
        id="policy:write:owner-label",
        source=_TABLE,
        behaviour="the owner may choose any label up to the session's ceiling",
    ),
    Requirement(
        id="policy:write:domain",
        source=_TABLE,
        behaviour="nothing is written into a domain that the session does not hold",
    ),
    Requirement(
        id="policy:write:replace",
        source="contract 2: trust tier",
        behaviour="a verified entry is replaced by the owner alone, and a replacement keeps at least the label unless the owner lowers it",
    ),
    Requirement(
        id="policy:write:policy", source=_TABLE, behaviour="entries of the type policy are written by the owner alone"
    ),
    Requirement(
        id="policy:export:label",
        source=_TABLE,
        behaviour="an export obliges to the lowest of the wish, the destination export and the session's ceiling",
    ),
    Requirement(
        id="policy:import:label",
        source=_TABLE,
        behaviour="an import above the session's ceiling, or without a highest label, is refused",
    ),
    Requirement(
        id="policy:owner:alone",
        source=_TABLE,
        behaviour="export, import, reindex and erase are the owner's alone, in domains that the grants know",
    ),
    Requirement(
        id="policy:deny:unknown-action",
        source=_DENY,
        behaviour="an action that the policy does not know is denied and named",
    ),
    Requirement(
        id="policy:deny:no-grants", source=_DENY, behaviour="a root without grants opens and denies everything"
    ),
    Requirement(
        id="policy:reject:tier",
        source="contract 2: trust tier",
        behaviour="a session rejects what nobody has verified; what was verified, the owner alone",
    ),
    Requirement(
        id="policy:reject:type",
        source=_TABLE,
        behaviour="entries of the type policy are rejected by the owner alone",
    ),
    Requirement(
        id="policy:deny:not-json", source=_DENY, behaviour="an input that is no JSON is denied, without an exception"
    ),
    Requirement(
        id="policy:deny:reasons",
        source=_PORT,
        behaviour="every refusal has a reason, a rule and the policy's version, and no obligation",
    ),
    Requirement(
        id="policy:filter:ceiling",
        source="port: Policy.read_filter",
        behaviour="the read filter names each domain that the session holds with its ceiling",
    ),
    Requirement(
        id="policy:filter:closed",
        source="port: Policy.read_filter",
        behaviour="a session that would be refused reads nothing",
    ),
    Requirement(
        id="policy:filter:agrees",
        source="port: Policy.read_filter",
        behaviour="the read filter allows what decide allows to read and nothing else",
    ),
    Requirement(
        id="policy:version:stable",
        source="port: Policy.version",
        behaviour="the version is the same for the same policy and grants and differs for others",
    ),
    Requirement(
        id="policy:grants:changed",
        source="port: Policy.version",
        behaviour="changed grants count at the next decision, with a new version",
    ),
    Requirement(
        id="policy:grants:broken",
        source=_DENY,
        behaviour="grants that break while the policy runs deny everything until they are mended",
    ),
    Requirement(
        id="policy:grants:broken-at-open",
        source="contract 7",
        behaviour="broken grants are a ConfigError that names the file",
    ),
    Requirement(
        id="policy:grants:domains",
        source="port: Policy.domains",
        behaviour="domains lists what the grants know, sorted",
    ),
    Requirement(
        id="policy:init:domain",
        source="port: SupportsInit",
        behaviour="init_domain grants a new domain at once and keeps what was granted",
    ),
    Requirement(
        id="policy:threads:foreign",
        source="port: Policy",
        behaviour="threads that did not open the policy get the same decisions, at the same time",
    ),
    Requirement(id="policy:close:idempotent", source="port: Policy.close", behaviour="close can be called again"),
]
