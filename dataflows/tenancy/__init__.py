"""Tenants, their resources, and their moves."""
