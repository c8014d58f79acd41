"""What proves the platform from outside: simulator, demo, soak, bench, and the kit that they share."""
