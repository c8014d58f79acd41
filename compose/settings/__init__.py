"""The settings of all processes, and what they mean for the services."""
