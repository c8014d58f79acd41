"""Where a gateway is asked: frames, ASGI, Envoy; addresses of clients, metrics."""
