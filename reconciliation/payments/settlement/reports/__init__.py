"""What processors and the bank report, format by format, read into one kind of line."""
