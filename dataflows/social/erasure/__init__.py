"""Erasure: takes away what a user left, proves that nothing of it can be reached, and certifies that."""
