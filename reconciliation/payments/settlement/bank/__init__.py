"""Bank statements: their entries beside the payouts that they tell of."""
