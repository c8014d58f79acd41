"""Routes and reads of payments, and what the ingress adds to their commands."""
