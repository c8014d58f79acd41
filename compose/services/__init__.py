"""The wiring of each process."""
