"""Social posts beside a reference in Python: random histories, and every surface compared. For soak and tests."""
