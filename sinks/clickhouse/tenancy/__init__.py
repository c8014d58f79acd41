"""Usage of tenants in ClickHouse."""
