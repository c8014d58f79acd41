"""Invoices through the whole system, an owner killed half-way, and the proof that nothing differs."""
