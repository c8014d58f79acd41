"""The invariants as SQL files, and the check that asks all of them over one snapshot."""
