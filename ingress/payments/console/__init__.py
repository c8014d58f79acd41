"""Payments' pages of the console: queues, stories, repairs, reconciliation, the trial balance, processors."""
