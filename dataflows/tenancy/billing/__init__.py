"""Billing of tenants: runs as their owner keeps them, and the invoices that are made of them."""
