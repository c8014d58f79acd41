"""Tenants: made, moved, metered, read, and beside a noisy one."""
