"""What is reconciled of the rate limiter."""
