"""The index of amem: what ranks, derived from the record and rebuilt from it at any time."""
