"""What is done for tenants outside an owner's commit: stores made, rows brought, exports, moves, deletions."""
