"""Pure decisions of payments: no clock, no randomness, no I/O."""
