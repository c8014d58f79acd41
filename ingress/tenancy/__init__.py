"""The multi-tenant platform in the ingress: usage, billing, support access."""
