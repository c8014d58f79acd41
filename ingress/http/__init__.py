"""What is HTTP alone: reading requests, problems, pages and cursors, health, the store of named queries."""
