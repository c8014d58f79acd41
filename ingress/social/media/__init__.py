"""Media: the commands of uploads with their URLs, and the origin, a process and an address of its own."""
