"""Committed events into ClickHouse, exactly once: plan, insert, mark."""
