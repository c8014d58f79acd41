"""The multi-tenant platform in ClickHouse."""
