# The built-in policy, first part: sessions, reading, and what the holder of a task does.
# changes.rego is the second part: writing, what leaves, what is forgotten. It is read when it is needed: a
# search asks for none of it.
#
# A root replaces both by its own policy/*.rego, which declare `package amem` and two rules:
#
#   decision     {"allow": bool, "reasons": [sentence, ...], "rules": [name, ...], "obligations": {...}}
#   read_filter  {domain: the highest label that the session may read, ...}
#
# They see two documents:
#
#   input        {"action", "session": {"author", "kind", "destination", "domains", "label", "ceiling"},
#                "resource": {...}}; the action is "read_filter" for the rule of that name
#   data.grants  grants.toml, indexed by holder so that a look-up costs the same with one domain and a thousand:
#                {"held": {"owner": {domain: {"label"}}}, "destinations": {name: {"ceiling"}}}
#
# Every rule that a decision rests on has a default: what cannot be shown is refused.
package amem

import rego.v1

rank := {"public": 0, "internal": 1, "confidential": 2, "restricted": 3}

word := ["public", "internal", "confidential", "restricted"]

default decision := {"allow": false, "reasons": ["no rule allows it"], "rules": ["default-deny"], "obligations": {}}

decision := {"allow": true, "reasons": notes, "rules": [rule], "obligations": obligations} if {
	rule := allowed_by[input.action]
	count(refusals) == 0
} else := {"allow": false, "reasons": [refusal[1] | some refusal in refusals], "rules": [refusal[0] | some refusal in refusals], "obligations": {}} if {
	count(refusals) > 0
}

default read_filter := {}

read_filter := {name: word[ceiling] | some name, _ in holdings; in_session(name)} if {
	count(session_refusals) == 0
}

# Every action that the policy knows, and the rule that allows it when nothing refuses it.
allowed_by := {
	"session": "session-may-open",
	"read": "holder-may",
	"claim": "holder-may",
	"heartbeat": "holder-may",
	"complete": "holder-may",
	"release": "holder-may",
	"write": "holder-may",
	"reject": "holder-may",
	"file_task": "holder-may",
	"export": "owner-may",
	"import": "owner-may",
	"reindex": "owner-may",
	"erase": "owner-may",
	"lift": "owner-may",
	"verify": "owner-may",
}

seeing := {"read", "claim", "heartbeat", "complete", "release", "reject"}

refusals contains ["unknown-action", sprintf("%v is not an action that the policy knows", [input.action])] if {
	not allowed_by[input.action]
}

refusals contains refusal if some refusal in session_refusals

# ---- the session ----------------------------------------------------------------------------------

default kind := "unknown"

kind := "owner" if {
	input.session.kind == "owner"
	input.session.author == "owner"
}

kind := "agent" if {
	input.session.kind == "agent"
	is_string(input.session.author)
	input.session.author != "owner"
}

session_refusals contains ["unknown-session", "its kind and its author do not say whether it is the owner's or an agent's session"] if {
	kind == "unknown"
}

# The owner at the command line sends nothing anywhere; whoever names a destination is bound by it.
default limit := -1

limit := 3 if {
	kind == "owner"
	input.session.destination == null
}

limit := rank[data.grants.destinations[input.session.destination].ceiling]

session_refusals contains ["unknown-destination", sprintf("the destination %v is not in the grants, so that nothing may flow to it", [object.get(input.session, "destination", null)])] if {
	limit == -1
}

# An open session carries its ceiling: it may be below its destination's and never lifts it.
default ceiling := -1

ceiling := limit if input.action == "session"

ceiling := min([limit, rank[input.session.ceiling]]) if input.action != "session"

session_refusals contains ["no-ceiling", "the session carries no ceiling that is a label"] if {
	ceiling == -1
	limit >= 0
}

default narrowing := "wrong"

narrowing := "none" if input.session.domains == null

narrowing := "some" if is_array(input.session.domains)

session_refusals contains ["no-narrowing", "the session's domains are neither a list nor null"] if narrowing == "wrong"

default holdings := {}

holdings := data.grants.held.owner

default in_session(_) := false

in_session(_) if narrowing == "none"

in_session(name) if {
	narrowing == "some"
	name in input.session.domains
}

refusals contains ["domain-not-held", sprintf("the session asks for the domain %v, which nobody holds in the grants", [name])] if {
	input.action == "session"
	narrowing == "some"
	some name in input.session.domains
	not holdings[name]
}

# ---- the domain -----------------------------------------------------------------------------------

default domain := ""

domain := input.resource.domain if is_string(input.resource.domain)

refusals contains ["domain-not-held", sprintf("the domain %v is held by nobody in the grants", [domain])] if {
	input.action != "session"
	allowed_by[input.action]
	not holdings[domain]
}

refusals contains ["domain-not-in-session", sprintf("the session was narrowed to other domains than %v", [domain])] if {
	input.action != "session"
	holdings[domain]
	not in_session(domain)
}

# ---- reading, and holding a task ------------------------------------------------------------------

default label := 4

label := rank[input.resource.label]

refusals contains ["no-label", "what is asked for carries no label that the policy knows"] if {
	label == 4
	input.action in seeing
}

refusals contains ["label-above-ceiling", sprintf("it is %v and the session's ceiling is %v", [word[label], word[ceiling]])] if {
	label > ceiling
	input.action in seeing
}

readable_by_all := {"active", "superseded", "archived", "demoted"}

refusals contains ["status-closed", sprintf("an entry that is %v is not read", [object.get(input.resource, "status", null)])] if {
	input.action == "read"
	not input.resource.status in readable_by_all
	not quarantine_of_the_owner
}

default quarantine_of_the_owner := false

quarantine_of_the_owner if {
	kind == "owner"
	input.resource.status == "quarantined"
}

# ---- what an allowed action obliges to ------------------------------------------------------------

default obligations := {}

obligations := {"ceiling": word[ceiling]} if input.action == "session"

default notes := []

notes := [sprintf("what it reads may be %v at most", [word[ceiling]])] if input.action == "session"
