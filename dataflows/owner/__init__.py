"""The partition-owner runtime; it knows no service."""
