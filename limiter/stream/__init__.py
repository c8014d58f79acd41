"""What a gateway reports: decisions in columnar blocks, leases, charges."""
