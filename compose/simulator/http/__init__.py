"""The processor's HTTP face: its process, its routes, the levers, and answers that are lost on purpose."""
