"""The embedded stack: real servers, one module each, on loopback and in one home folder."""
