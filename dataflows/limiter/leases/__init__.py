"""The stream of leases: what became of every lease of the rate limiter, and the end of those that nobody ended."""
