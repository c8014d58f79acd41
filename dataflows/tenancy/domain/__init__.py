"""Pure decisions of tenants and resources."""
