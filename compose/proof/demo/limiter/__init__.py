"""The limiter before real traffic: three gateways, an oracle that judges them, and a replay."""
