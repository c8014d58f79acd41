"""The counter store: Redis functions, each in a file of its own."""
