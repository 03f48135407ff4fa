"""The ledger in PostgreSQL; ``ledger`` says how it works. Importing this package imports no driver."""
