"""The framed protocol of gateways: server and clients."""
