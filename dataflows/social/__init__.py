"""Social posts: decisions, the partitions of owners, fan-out."""
