"""Routes of quota policies, and the limits of our own API."""
