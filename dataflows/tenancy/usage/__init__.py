"""Usage of tenants, counted: each event once, whatever is sent, read or killed twice."""
