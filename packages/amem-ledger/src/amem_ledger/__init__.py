"""The task ledger of amem: claims, leases and fencing tokens on SQLite or PostgreSQL."""
