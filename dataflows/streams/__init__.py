"""Topics folded by partition, with the positions in Postgres beside what they led to."""
