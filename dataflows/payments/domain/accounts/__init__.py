"""Merchants' accounts: payouts and where they go, reserves, exchanges, and what each posts."""
