"""Secrets of tenants outside the database: key file, contexts of transactions, seals of payloads and keys."""
