"""A copy of a home whose stack runs, and the way back from it."""
