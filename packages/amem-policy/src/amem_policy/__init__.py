"""The perimeter of amem: decisions in Rego, denied by default."""
