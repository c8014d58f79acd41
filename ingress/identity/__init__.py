"""Who calls: tokens, keys, signed requests."""
