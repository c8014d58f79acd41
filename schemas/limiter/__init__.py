"""What crosses a boundary for the rate limiter: quota policies, their keys, windows and fields."""
