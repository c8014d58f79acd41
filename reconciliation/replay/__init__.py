"""Rebuilds a projection from the event stream into a shadow, compares it with the live one, and may exchange the two."""
