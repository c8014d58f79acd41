"""The one transaction of a round: commands decided in memory, committed once, or set aside."""
