"""Decisions into ClickHouse, and what is read there."""
