"""Fan-out: posts into the homes of those who follow."""
