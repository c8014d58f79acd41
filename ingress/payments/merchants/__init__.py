"""Merchants' accounts, reports and webhook endpoints."""
