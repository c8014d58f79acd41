"""What crosses a boundary for social posts: operations, values, events."""
