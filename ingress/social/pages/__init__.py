"""Pages for users at /app: rendered here, over the same parts and the same rule of who sees what as the API."""
