"""What becomes of tenants and of what is theirs: pure."""
