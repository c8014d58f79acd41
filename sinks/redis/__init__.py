"""Valkey (the Redis protocol): counters that may be lost, never facts."""
