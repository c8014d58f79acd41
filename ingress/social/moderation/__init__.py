"""Moderation in the ingress: the queue, decisions, and how far they have come."""
