"""The multi-tenant platform at the boundary."""
