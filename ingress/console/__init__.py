"""The operator console: pages for people, over the same parts that the API uses."""
