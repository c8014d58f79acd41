"""What crosses a boundary for payments: policies, facts, processors, repairs, merchants' webhooks."""
