# The built-in policy, second part: writing, correcting, what leaves and what comes in, and what is forgotten.
package amem

import rego.v1

writing := {"write", "file_task"}

owners_alone := {"export", "import", "reindex", "erase", "lift", "verify"}

refusals contains ["owner-only", sprintf("only the owner may %v", [input.action])] if {
	input.action in owners_alone
	kind != "owner"
}

# ---- writing --------------------------------------------------------------------------------------

# 4 stands for what is not a label: it is above every ceiling, so that it never allows a write.
default asked := 4

asked := -1 if input.resource.label == null

asked := rank[input.resource.label]

default seen := 4

seen := rank[input.session.label]

default usual := 4

usual := rank[holdings[domain].label]

default replaced := 4

replaced := -1 if input.action == "file_task"

replaced := -1 if input.resource.replaces == null

replaced := rank[input.resource.replaces.label]

# Only the owner lowers a label; nobody else writes below what was read, replaced or usual.
default taken := 4

taken := asked if owner_asks

taken := max([asked, usual, seen, replaced]) if not owner_asks

default owner_asks := false

owner_asks if {
	kind == "owner"
	asked in {0, 1, 2, 3}
}

refusals contains ["unknown-label", "what is asked, what is replaced and what the session has read do not all carry a label"] if {
	input.action in writing
	4 in {asked, seen, replaced}
}

refusals contains ["label-above-ceiling", sprintf("by what was asked, read and replaced, and by its domain, it would be %v, and the session's ceiling is %v", [word[taken], word[ceiling]])] if {
	input.action in writing
	taken > ceiling
}

default tier := "none"

tier := input.resource.replaces.tier

refusals contains ["verified-entry", "it would replace a verified entry, which only the owner may"] if {
	input.action == "write"
	kind != "owner"
	not tier in {"none", "raw", "curated"}
}

refusals contains ["owner-only", "only the owner writes entries of the type policy"] if {
	input.action == "write"
	kind != "owner"
	not ordinary_type
}

default ordinary_type := false

ordinary_type if {
	is_string(input.resource.type)
	input.resource.type != "policy"
}

# ---- correcting -----------------------------------------------------------------------------------

# A session takes back what nobody has vouched for; what a person approved, a person takes back.
default rejected_tier := "none"

rejected_tier := input.resource.tier

refusals contains ["verified-entry", "it would reject a verified entry, which only the owner may"] if {
	input.action == "reject"
	kind != "owner"
	not rejected_tier in {"raw", "curated"}
}

refusals contains ["owner-only", "only the owner rejects entries of the type policy"] if {
	input.action == "reject"
	kind != "owner"
	not ordinary_type
}

# ---- what leaves and what comes in ----------------------------------------------------------------

default export_limit := 4

export_limit := rank[data.grants.destinations["export"].ceiling]

default export_asked := 4

export_asked := 3 if input.resource.max_label == null

export_asked := rank[input.resource.max_label]

leaving := min([export_asked, export_limit, ceiling])

refusals contains ["unknown-destination", "the destination export is not in the grants, so that nothing may flow to it"] if {
	input.action == "export"
	export_limit == 4
}

refusals contains ["unknown-label", "the highest label that may leave is asked for by no label that the policy knows"] if {
	input.action == "export"
	export_asked == 4
}

default brought := 4

brought := rank[input.resource.highest_label]

refusals contains ["unknown-label", "what is brought in carries no highest label that the policy knows"] if {
	input.action == "import"
	brought == 4
}

refusals contains ["label-above-ceiling", sprintf("what is brought in is up to %v, and the session's ceiling is %v", [word[brought], word[ceiling]])] if {
	input.action == "import"
	brought > ceiling
}

# ---- what an allowed action obliges to ------------------------------------------------------------

obligations := {"label": word[taken]} if input.action in writing

obligations := {"max_label": word[leaving]} if input.action == "export"

notes := [sprintf("it takes the label %v", [word[taken]])] if input.action in writing

notes := [sprintf("nothing above %v leaves", [word[leaving]])] if input.action == "export"
