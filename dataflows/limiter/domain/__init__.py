"""Pure decisions of the rate limiter: no clock, no randomness, no I/O."""
