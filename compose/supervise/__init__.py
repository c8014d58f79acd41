"""The supervisor: one process that starts servers and services, keeps them running and stops them in order."""
