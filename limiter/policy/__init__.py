"""Quota policies as gateways follow them, the keys that they count, and their snapshots."""
