"""Partition owners: commands per second, latency, CPU and bytes per command, and the state in the end."""
