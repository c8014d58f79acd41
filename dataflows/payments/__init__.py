"""Payments: the service as the owner runtime sees it, and its processor attempts."""
