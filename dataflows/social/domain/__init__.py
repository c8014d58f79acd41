"""Pure decisions of social posts."""
