"""Objects: bytes in files, written once."""
