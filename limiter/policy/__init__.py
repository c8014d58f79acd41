"""Quota policies as gateways follow them, the keys that they count, the shard map, and their signed snapshots."""
