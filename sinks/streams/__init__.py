"""Follows a topic of events from a position in Postgres: in order, each event once, never past an unread one."""
