"""What every request goes through before a route sees it, and how its content is read."""
