"""Usage of tenants: handed in, and asked for."""
