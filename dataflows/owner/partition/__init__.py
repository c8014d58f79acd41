"""A partition in an owner's hands: its lease, its place, and what Kafka holds of it."""
