"""Social posts in the ingress."""
