"""Tenants beside a model: what a soak does in their name, and what must then be so."""
