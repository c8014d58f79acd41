"""Cases and repairs at a shell: to look at, and to finish what two persons decided."""
