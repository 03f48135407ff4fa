"""Durable memory and a task ledger for disposable agents: types, ports and use cases."""
