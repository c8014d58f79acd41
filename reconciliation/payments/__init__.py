"""What is reconciled of payments: settlement, repairs, processors' books, exports, forecasts."""
