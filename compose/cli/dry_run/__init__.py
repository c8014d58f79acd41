"""Past decisions under other policies: what would have been decided otherwise. Nothing is charged or changed."""
