"""What check, replay and services share: a snapshot, a projection, and what a service gives to both."""
