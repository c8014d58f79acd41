"""What becomes of tenants and resources: pure."""
