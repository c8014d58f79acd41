"""Mutation testing of the domain that moves money: ``python -m tests.mutation ledger refund dispute settlement``."""
