"""A fifth service, in this folder alone: it proves what the platform asks of a service, and that nothing else is asked."""
