"""Single commands in open and closed loops, and lists of commands, over HTTP."""
