"""The audit log at a shell: to append to, to read, and to prove unchanged."""
