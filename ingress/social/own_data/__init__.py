"""What is one's own as a whole: the copy that is streamed, and the erasure with its certificate."""
