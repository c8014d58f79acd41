"""What a policy that is not published would have made of the past: read-only, bounded, by the owners' own functions."""
