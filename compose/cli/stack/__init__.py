"""Commands about what runs in this home: start, stop, look, and bring its schema up to date."""
