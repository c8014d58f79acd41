"""The processor's durable book: its file, its one writer, and the reader beside it."""
