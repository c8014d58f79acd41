"""Tenants' pages of the console: they look, and decide nothing."""
