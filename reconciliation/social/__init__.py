"""Social posts as reconciliation sees them."""
