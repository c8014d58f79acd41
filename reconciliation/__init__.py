"""Proof after the fact: invariants, replays, recovery checkpoints and parked work."""
