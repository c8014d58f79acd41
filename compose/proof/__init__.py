"""What proves the platform from outside: demo, soak, bench, and the kit that they share."""
