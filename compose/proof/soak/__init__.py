"""``millrace soak payments``: everything at once, every process killed in turn, and then the proof."""
