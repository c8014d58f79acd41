"""Reports of processors, fetched and reconciled each day without a person."""
