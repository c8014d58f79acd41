"""Published policies of payments, and the signals that risk rules read."""
