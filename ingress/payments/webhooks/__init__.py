"""What processors tell us of their own accord: verified, durable, answered. What it means is found out elsewhere."""
