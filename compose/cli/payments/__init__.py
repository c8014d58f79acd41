"""Commands about money: what waits for a person, repairs, settlement, the ledger, other policies."""
