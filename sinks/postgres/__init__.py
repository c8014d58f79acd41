"""Postgres: migrations, queries, connections, arrays, the ledger's hash chain."""
