"""Social posts in ClickHouse."""
