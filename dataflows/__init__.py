"""Domain, owner runtime and services."""
