"""Rebuilds a projection from its events into a shadow, compares it with the live one, and may exchange the two."""
