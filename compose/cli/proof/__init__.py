"""Commands that prove and measure the system: demo, soak, bench."""
