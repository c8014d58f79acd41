"""Workers of services: processes beside the owners, which follow events and send commands."""
