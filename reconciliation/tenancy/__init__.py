"""The multi-tenant platform as reconciliation sees it."""
