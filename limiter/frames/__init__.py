"""The framed protocol of gateways: its bytes, and its clients."""
