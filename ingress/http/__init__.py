"""HTTP without any service: reading requests, problems, pages and cursors, health, the store of named queries."""
