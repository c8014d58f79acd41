"""What a tenant is billed, what it may for that, and how it pays."""
