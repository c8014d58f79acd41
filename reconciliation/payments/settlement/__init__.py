"""Settlement: what processors and the bank report, read, matched to what we recorded, and answered by commands."""
