"""Doors of a gateway: ASGI, Envoy, addresses of clients, metrics."""
