"""The multi-tenant platform on the owner runtime, and its workers."""
