"""``millrace soak``: a service under load, every process killed in turn, and then the proof."""
