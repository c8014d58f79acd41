"""How a path finds its route, at little cost."""
