"""The counter store: its calls, its shards, its clock, and how it is restored."""
