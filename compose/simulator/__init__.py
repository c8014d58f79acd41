"""An outside card processor with its own durable book: the witness of what money really moved."""
