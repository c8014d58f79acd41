"""The OpenAPI document: its small pieces, and what no service has for itself."""
