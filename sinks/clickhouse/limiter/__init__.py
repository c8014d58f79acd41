"""Decisions of the rate limiter in ClickHouse: definitions of the tables, and questions to them."""
