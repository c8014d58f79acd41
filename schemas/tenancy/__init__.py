"""What crosses a boundary for the multi-tenant platform alone."""
