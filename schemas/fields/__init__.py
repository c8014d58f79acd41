"""What a field is: how it is declared, what its values may be, and what no text may hold."""
