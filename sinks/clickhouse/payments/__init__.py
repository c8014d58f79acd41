"""Payments in ClickHouse: tables, their definitions, and the rows of an event."""
