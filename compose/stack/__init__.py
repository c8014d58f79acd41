"""The embedded stack: real servers, a module or a room each, on loopback and in one home folder."""
