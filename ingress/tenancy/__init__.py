"""The multi-tenant platform in the ingress."""
