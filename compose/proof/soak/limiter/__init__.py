"""The soak of the limiter: its clients and policies, and the accounts that are compared at the end."""
