"""One seam per outside system."""
