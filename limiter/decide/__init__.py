"""Decides a request: out of a lease in memory, or at the counter store."""
